"""Running attempts in a worker, from their message to the recorded outcomes (section 4.3).

The accounts of waiting attempts are created as a set, in one statement and one commit. Creating thirty
accounts together costs half of creating them one by one, and under load requests share a message. A set
contains only ordinary attempts: first tries, no dry runs, with payloads that have passed the rules in force.
Every other attempt runs alone (`attempts.take_alone`), so that an account that the database refuses, or that
crashes its worker, affects others only once.

Functions that take `sessions` open their own transactions, because each step has to be committed before the
next.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from redis import Redis
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.sql import OpenTransaction, begin
from migration_service.errors import ServiceError
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.services.imports.states import EndedAttempt, RunningAttempt
from migration_service.services.processing.attempts import (
    SetApart,
    complete_attempts,
    fail_attempt,
    out_of_tries,
    run_attempt,
    running_attempt,
    set_apart,
    take_alone,
    with_account,
)
from migration_service.services.processing.creation import (
    create_accounts,
    explain_refusal,
    is_refusal,
)
from migration_service.services.processing.signals import announce, find_new
from migration_service.states import ImportState, Outcome

#: The largest size of a set. Larger sets save little per account, and make the first attempt wait for the
#: last.
MOST_IN_SET = 32
#: Seconds after which a worker starts no more attempts before it takes the next message.
_LONGEST_ROUND = 5.0


@dataclass(frozen=True, slots=True)
class WaitingAttempt:
    """An attempt that no worker has started. Its process is locked until the transaction ends."""

    attempt: RunningAttempt
    #: Whether the payload passed the rules and profile in force. Otherwise it is revalidated and runs alone.
    is_valid: bool
    sends_customer_emails: bool


@dataclass(frozen=True, slots=True)
class PerformedAttempt:
    """An attempt that has just ended, with its outcome committed."""

    id: UUID
    #: `SUCCEEDED`, or the code of the failure.
    outcome: str
    service_account_number: str | None = None


@dataclass(frozen=True, slots=True)
class PerformedSet:
    """A set that has just ended, with its outcomes committed."""

    #: The attempts that created their accounts.
    ended: Sequence[EndedAttempt] = ()
    #: The attempts that run alone instead.
    apart: SetApart = field(default_factory=SetApart)


# Includes the effect of `creation.KEEP_THE_PLAN`, to save its round trip. `turn` is the position of an
# attempt among those of its organisation, so that an organisation with many does not fill the set. The limit
# counts only rows that could be locked.
_TAKE = f"""
    WITH waiting AS MATERIALIZED (
        SELECT process.id, row_number() OVER (
            PARTITION BY supplier.organisation_id ORDER BY process.dispatched_at) AS turn
        FROM account_import_process process
        JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
        WHERE process.state = '{ImportState.IN_PROGRESS}' AND NOT process.runs_alone)
    SELECT attempt.id, attempt.account_import_process_id, attempt.operations_team_id, attempt.api_key_id,
           attempt.dry_run, attempt.request_id, attempt.address,
           process.rules_version = %(rules_version)s AND process.profile = supplier.profile AS is_valid,
           supplier.sends_customer_emails,
           set_config('plan_cache_mode', 'force_generic_plan', true)
    FROM waiting
    JOIN account_import_process process ON process.id = waiting.id
    JOIN attempt ON attempt.id = process.attempt_id AND NOT attempt.dry_run
    JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
    WHERE process.state = '{ImportState.IN_PROGRESS}' AND NOT process.runs_alone
    ORDER BY waiting.turn, process.dispatched_at
    LIMIT %(most)s
    FOR UPDATE OF process SKIP LOCKED
"""


def take_set(transaction: OpenTransaction) -> list[WaitingAttempt]:
    """Lock and return up to MOST_IN_SET waiting attempts.

    Organisations take turns, and the oldest attempts of each come first.
    """
    rows = transaction.lock(_TAKE, {"rules_version": RULES_VERSION, "most": MOST_IN_SET})
    return [WaitingAttempt(running_attempt(row), row.is_valid, row.sends_customer_emails) for row in rows]


def create_set(transaction: OpenTransaction, waiting: Sequence[WaitingAttempt]) -> list[EndedAttempt]:
    """Create the accounts of the attempts from `take_set`, all or none, and record the outcomes.

    If the database raises an error, the caller must roll back.
    """
    if not waiting:
        return []
    attempts = {it.attempt.account_import_process_id: it.attempt for it in waiting}
    teams = {id_: attempt.operations_team_id for id_, attempt in attempts.items()}
    created = create_accounts(transaction, teams)
    ended = [with_account(attempts[account.account_import_process_id], account) for account in created]
    sends_emails = any(it.sends_customer_emails for it in waiting)
    complete_attempts(transaction, ended, started=True, sends_customer_emails=sends_emails)
    return ended


def perform_set(
    sessions: sessionmaker[Session],
    redis: Redis,
    *,
    publish: Callable[[], object],
    redelivered: bool = False,
) -> PerformedSet:
    """Create the accounts of waiting attempts together, up to the size of a set.

    If the database refuses one, none is created, and each attempt runs alone. After a message was redelivered
    because its worker died (`redelivered`), all waiting attempts run alone: any of them may be the cause, and
    it is not known which of them the worker had. Any other error is raised, and leaves them waiting.

    `publish` is called to announce the rest if there may be more attempts than fit into the set. Attempts
    that were in an earlier set run alone, so that an attempt that crashes its worker does so in one set only.
    """
    if redelivered:
        return PerformedSet(apart=_set_apart(sessions))
    try:
        with begin(sessions) as transaction:
            taken = take_set(transaction)
            if len(taken) == MOST_IN_SET:
                announce(redis, publish)
            new = find_new(redis, [it.attempt.id for it in taken])
            together = [it for it in taken if it.is_valid and it.attempt.id in new]
            ended = create_set(transaction, together)
        others = [it.attempt.id for it in taken if it not in together]
    except DBAPIError as error:
        if not is_refusal(error):
            raise
        ended, others = [], [it.attempt.id for it in taken]
    return PerformedSet(ended, _set_apart(sessions, others) if others else SetApart())


def _set_apart(sessions: sessionmaker[Session], attempt_ids: Sequence[UUID] | None = None) -> SetApart:
    with sessions.begin() as session:
        return set_apart(session, attempt_ids)


def perform_alone(
    sessions: sessionmaker[Session], redis: Redis, *, publish: Callable[[], object]
) -> Iterator[PerformedAttempt]:
    """Run one of the attempts to run alone for each organisation, and yield those that have ended.

    If others are waiting, they are announced with `publish`, so that more workers run them, or this one in
    its next round. An organisation with many attempts thus delays others by only one attempt.
    """
    served: set[int] = set()
    until = time.monotonic() + _LONGEST_ROUND
    while time.monotonic() < until:
        with begin(sessions) as transaction:
            taken = take_alone(transaction, served)
        if taken is None:
            return
        if taken.is_followed and not served:
            announce(redis, publish)
        served.add(taken.organisation_id)
        performed = perform_attempt(sessions, taken.id)
        if performed:
            yield performed


def perform_attempt(sessions: sessionmaker[Session], attempt_id: UUID) -> PerformedAttempt | None:
    """Run an attempt until it ends. Return None if there was nothing to do.

    An error of the account ends the attempt. Any other error, such as a lost connection, is raised. The
    attempt stays in progress, and the sweep gives it to the workers again.
    """
    try:
        with begin(sessions) as transaction:
            number = run_attempt(transaction, attempt_id)
        return PerformedAttempt(attempt_id, Outcome.SUCCEEDED, number) if number else None
    except ServiceError as error:
        failure = error
    except DBAPIError as error:
        refused = explain_refusal(error)
        if refused is None:
            raise
        failure = refused
    return _fail(sessions, attempt_id, failure)


def give_up_attempt(sessions: sessionmaker[Session], attempt_id: UUID) -> PerformedAttempt | None:
    """End an attempt that is out of tries. Return None if it is no longer current."""
    return _fail(sessions, attempt_id, out_of_tries())


def _fail(
    sessions: sessionmaker[Session], attempt_id: UUID, failure: ServiceError
) -> PerformedAttempt | None:
    with begin(sessions) as transaction:
        failed = fail_attempt(transaction, attempt_id, failure)
    return PerformedAttempt(attempt_id, failure.code) if failed else None
