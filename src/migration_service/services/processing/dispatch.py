"""Handling a process request: its checks, slot, attempt and message, and the wait (section 4.3).

The database is written before the message is published, and queried every second even without a notification.
A lost message or notification costs time, but never an account. No database connection is held during the
wait.

These functions open their own transactions, because each step has to be committed before the next one. The
worker's part is in `execution`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.db.statements import OpenTransaction, autocommit, begin
from migration_service.errors import (
    AccountCreationFailedError,
    AccountImportInProgressError,
    ConcurrencyLimitReachedError,
    NoWorkerAvailableError,
    ServiceUnavailableError,
)
from migration_service.log import request_id
from migration_service.origin import current_origin
from migration_service.services.access.callers import Caller
from migration_service.services.idempotency.keys import EarlierAttempt, KeyedRequest, keep_answer
from migration_service.services.imports import states
from migration_service.services.imports.states import RunningAttempt
from migration_service.services.processing.acceptance import ProcessOrder, check_request
from migration_service.services.processing.attempts import find_answer, withdraw_attempt
from migration_service.services.processing.signals import announce, wait_for_notification
from migration_service.services.processing.slot_leases import acquire_slots, release_slots
from migration_service.services.processing.slots import Slots
from migration_service.states import Outcome

#: Seconds to wait for the notification before the database is queried.
WAIT_SLICE = 1.0
#: Seconds until a commit that did not wait is on disk. PostgreSQL guarantees three times its
#: wal_writer_delay, which is 0.2 seconds by default.
ON_DISK_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The means to hand an attempt to a worker and wait for it."""

    Session: sessionmaker[Session]
    slots: Slots
    redis: Redis
    #: A client that allows commands to block for WAIT_SLICE, with a connection for each waiting request.
    waiting_redis: Redis
    #: Publishes the message that attempts are waiting (`signals.announce`).
    publish: Callable[[], object]
    #: Seconds that a request waits for its outcome.
    wait_seconds: float


def begin_attempt(
    d: Dispatch, caller: Caller, order: ProcessOrder, *, keyed: KeyedRequest | None = None, waits: bool
) -> UUID:
    """Start an attempt to create a staged account, announce it to the workers, and return its id.

    `keyed` is the request if it has an idempotency key: the attempt is its answer. `waits` means that
    `wait_for_outcome` is called next.

    Raise an InvalidError with the reason if the account cannot be processed now. Raise
    ConcurrencyLimitReachedError if no slot is free, ShareUsedError if the organisation uses its whole share,
    and ServiceUnavailableError if Redis is unavailable. After any of these, nothing has started.
    """
    # A client that does not wait is promised that the attempt will run, so it must be on disk.
    durable = not waits or d.wait_seconds < ON_DISK_WITHIN
    attempt_id = _begin(d, caller, order, keyed, durable=durable)
    announce(d.redis, d.publish)
    return attempt_id


def wait_for_outcome(d: Dispatch, attempt_id: UUID) -> str | None:
    """Wait for the attempt to end. Return its service account number, or None if it is still running.

    Raise an InvalidError with the reason if no account was created (including DryRunSucceededError),
    NoWorkerAvailableError if no worker started the attempt in time, and ServiceUnavailableError if a crash of
    PostgreSQL has undone it. After any of these, nothing continues in the background.
    """
    deadline = time.monotonic() + d.wait_seconds
    while (left := deadline - time.monotonic()) > 0:
        if number := wait_for_notification(d.waiting_redis, attempt_id, min(WAIT_SLICE, left)):
            return number
        ended, number = _find_outcome(d, attempt_id)
        if ended:
            return number
        announce(d.redis, d.publish)  # the last message may have been lost
    with begin(d.Session) as transaction:
        withdrawn = withdraw_attempt(transaction, attempt_id)
    if withdrawn:
        release_slots(d.slots, [attempt_id])
        raise NoWorkerAvailableError
    return _find_outcome(d, attempt_id)[1]


def _begin(
    d: Dispatch, caller: Caller, order: ProcessOrder, keyed: KeyedRequest | None, *, durable: bool
) -> UUID:
    with autocommit(d.Session) as statements:
        request = check_request(statements, caller, order)
    attempt = RunningAttempt(
        id=new_id(),
        account_import_process_id=request.account_import_process_id,
        operations_team_id=request.operations_team_id,
        api_key_id=caller.api_key_id,
        dry_run=order.dry_run,
        request_id=request_id.get(),
        address=current_origin().address,
    )
    if not acquire_slots(d.Session, d.slots, [attempt.id], owner=caller.organisation_id, limit=request.limit):
        raise ConcurrencyLimitReachedError
    try:
        if not _store(d, attempt, keyed, durable=durable):
            with autocommit(d.Session) as statements:
                check_request(statements, caller, order)  # raises the error of the new state
            raise AccountImportInProgressError
    except BaseException:
        release_slots(d.slots, [attempt.id])
        raise
    return attempt.id


def _store(d: Dispatch, attempt: RunningAttempt, keyed: KeyedRequest | None, *, durable: bool) -> bool:
    """Commit the attempt, together with its idempotency key. Return False if the account is not PENDING."""
    if keyed is None:
        with autocommit(d.Session) as statements:
            return states.begin(statements, attempt, durable=durable)
    with d.Session.begin() as session:
        begun = states.begin(OpenTransaction.of(session), attempt, durable=durable)
        if begun:
            keep_answer(session, keyed, EarlierAttempt(attempt.id))
        return begun


def _find_outcome(d: Dispatch, attempt_id: UUID) -> tuple[bool, str | None]:
    """Return whether the attempt has ended, and its service account number. Raise the error if it failed."""
    with autocommit(d.Session) as statements:
        answer = find_answer(statements, attempt_id)
    if answer is None:
        release_slots(d.slots, [attempt_id])
        raise ServiceUnavailableError
    if answer.outcome in (Outcome.FAILED, Outcome.DRY_RUN_SUCCEEDED):
        raise AccountCreationFailedError(answer.error_detail, code=answer.error_code, errors=answer.errors)
    return answer.outcome is not None, answer.service_account_number
