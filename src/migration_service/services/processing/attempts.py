"""Attempts, which are single runs of account creation from acceptance to outcome (sections 3.2 and 4.3).

The database row is authoritative. Messages and notifications only tell when to read it. An attempt that is no
longer the current one of its process has no effect, however often or late its message arrives.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import RULES_VERSION
from migration_payloads.schemas.json import parse_json
from migration_payloads.validation import validate_account
from migration_service.db.sql import OpenTransaction, SqlConnection
from migration_service.errors import AccountCreationFailedError, DryRunSucceededError, ServiceError
from migration_service.services.emails.customer_emails import record_customer_emails
from migration_service.services.imports import states
from migration_service.services.imports.states import EndedAttempt, RunningAttempt
from migration_service.services.processing.creation import (
    KEEP_THE_PLAN,
    create_accounts,
    creation,
    values_of,
)
from migration_service.states import ImportState, Outcome

#: Seconds after which an attempt is given to the workers again if none of them is running it.
GIVEN_AGAIN_AFTER = 10.0
#: How often an attempt or a chunk is given to a worker before it fails. An account that crashes its worker
#: must not crash one worker after another.
MAX_TRIES = 5
#: The largest size of a set. Larger sets save little per account, and make the first attempt wait for the
#: last.
MOST_IN_SET = 32


# Waits for its turn to run alone.
_ALONE = f"process.state = '{ImportState.IN_PROGRESS}' AND process.dispatched_at IS NULL"
# The payload is only read if it has not passed the rules and the profile in force.
_READ = f"""
    SELECT {", ".join(f"attempt.{name}" for name in RunningAttempt.__slots__)},
           CASE WHEN process.rules_version <> %(rules_version)s OR process.profile <> supplier.profile
                THEN process.payload::text END AS unchecked_payload,
           supplier.profile, supplier.time_zone, supplier.sends_customer_emails, {KEEP_THE_PLAN},
           EXISTS (SELECT FROM account_import_process AS process WHERE {_ALONE}) AS others_run_alone
    FROM account_import_process process
    JOIN attempt ON attempt.id = process.attempt_id AND attempt.account_import_process_id = process.id
    JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
"""
_LOCK = f"{_READ} WHERE attempt.id = %(attempt_id)s FOR UPDATE OF process"
_LOCK_IF_FREE = f"{_LOCK} SKIP LOCKED"


def run_attempt(transaction: OpenTransaction, attempt_id: UUID) -> EndedAttempt | None:
    """Create the account of a current attempt.

    Return None if there is nothing to do, because the attempt is no longer current or another worker is
    running it. The row stays locked until the transaction ends, so that no other worker runs the attempt.
    Raise a ServiceError with the reason if no account was created, which includes DryRunSucceededError. The
    caller then rolls back and records the error with `fail_attempt`.
    """
    if not (rows := _lock(transaction, _LOCK_IF_FREE, attempt_id)):
        return None
    (row,) = rows
    if row.unchecked_payload:
        payload = parse_json(row.unchecked_payload.encode())
        validate_account(payload, Profile(row.profile), row.time_zone).raise_errors()
    if row.dry_run:
        create_accounts(transaction, {row.account_import_process_id: row.operations_team_id})
        raise DryRunSucceededError
    return create_set(transaction, rows)[0]


def _lock(transaction: OpenTransaction, statement: str, attempt_id: UUID) -> list[Any]:
    return transaction.lock(statement, {"attempt_id": attempt_id, "rules_version": RULES_VERSION})


def create_set(transaction: OpenTransaction, rows: Sequence[Any]) -> list[EndedAttempt]:
    """Create the accounts of locked attempts, all or none. Record the outcomes and the customers' e-mails.

    If the database raises an error, the caller must roll back.
    """
    if not rows:
        return []
    teams = {row.account_import_process_id: row.operations_team_id for row in rows}
    values = values_of(teams)
    created = zip(rows, values["numbers"], strict=True)
    ended = [EndedAttempt(row, Outcome.SUCCEEDED, number) for row, number in created]
    states.complete(transaction, ended, started=True, before=creation(), values=values)
    if any(row.sends_customer_emails for row in rows):
        record_customer_emails(transaction, teams)
    return ended


def fail_attempt(transaction: OpenTransaction, attempt_id: UUID, error: ServiceError) -> EndedAttempt | None:
    """Record the reason why an attempt created no account. Its process becomes PENDING again.

    Return None if the attempt is no longer current.
    """
    ended = [EndedAttempt.with_error(row, error) for row in _lock(transaction, _LOCK, attempt_id)]
    states.complete(transaction, ended, started=True)
    return ended[0] if ended else None


def withdraw_attempt(transaction: OpenTransaction, attempt_id: UUID) -> bool:
    """End an attempt that no worker has started, so that it never runs.

    Return False if a worker is running it, or if it is no longer current.
    """
    rows = _lock(transaction, _LOCK_IF_FREE, attempt_id)
    states.complete(transaction, [EndedAttempt(row, Outcome.WITHDRAWN) for row in rows], started=True)
    return bool(rows)


def out_of_tries() -> AccountCreationFailedError:
    """Return the error of an account whose attempt ended MAX_TRIES workers or their connections."""
    return AccountCreationFailedError(
        f"Given up after {MAX_TRIES} tries: the worker or its connection ended each time."
    )


# The sweep finds older ones. The bound skips ended attempts that an old transaction keeps from removal.
_TOGETHER = f"""process.state = '{ImportState.IN_PROGRESS}' AND NOT process.runs_alone
    AND process.dispatched_at > now() - interval '{1.5 * GIVEN_AGAIN_AFTER} seconds'"""
# `turn` is the place of an attempt in its organisation, so that one with many does not delay the others.
_WAITING = """
    WITH waiting AS MATERIALIZED (
        SELECT process.id, supplier.organisation_id,
               row_number() OVER (PARTITION BY supplier.organisation_id ORDER BY process.attempt_id) AS turn
        FROM account_import_process process
        JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
        WHERE {condition})"""

# The limit counts only rows that could be locked.
_TAKE_SET = f"""
    {_WAITING.format(condition=_TOGETHER)} {_READ}
    JOIN waiting ON waiting.id = process.id
    WHERE {_TOGETHER} AND NOT attempt.dry_run
    ORDER BY waiting.turn, process.attempt_id
    LIMIT %(most)s
    FOR UPDATE OF process SKIP LOCKED
"""


def take_set(transaction: OpenTransaction) -> list[Any]:
    """Lock up to MOST_IN_SET waiting attempts, and return their rows.

    Organisations take turns, and the oldest attempts of each come first. Each row has the columns of a
    RunningAttempt, `unchecked_payload`, with which it must run alone, and `others_run_alone`.
    """
    return transaction.lock(_TAKE_SET, {"rules_version": RULES_VERSION, "most": MOST_IN_SET})


# Rows are tried one by one until one is not locked, so two workers take different attempts. The commit need
# not wait for the disk: a crash of the server that undoes it also cuts the worker's connection.
_TAKE_ALONE = f"""
    {_WAITING.format(condition=_ALONE)},
    next AS MATERIALIZED (
        SELECT process.id, waiting.organisation_id
        FROM waiting JOIN account_import_process process ON process.id = waiting.id
        WHERE {_ALONE} AND waiting.organisation_id <> ALL (%(served)s::bigint[])
        ORDER BY waiting.turn, process.attempt_id
        LIMIT 1 FOR UPDATE OF process SKIP LOCKED)
    UPDATE account_import_process process SET dispatched_at = now()
    FROM next WHERE process.id = next.id
    RETURNING process.attempt_id AS id, next.organisation_id,
              (SELECT count(*) FROM waiting) > 1 AS is_followed,
              set_config('synchronous_commit', 'off', true)
"""


def take_alone(connection: SqlConnection, served: Collection[int]) -> Any:
    """Take the next attempt to run alone, from an organisation that is not in `served`, or return None.

    The row has its `id` and `organisation_id`, and whether further attempts wait (`is_followed`). This is
    committed before the attempt runs, so that an attempt that crashes its worker is detected.
    """
    rows = connection.execute(_TAKE_ALONE, {"served": list(served)})
    return rows[0] if rows else None


@dataclass(frozen=True, slots=True)
class SetApart:
    """Attempts that will not be in a set any more."""

    #: Attempts that wait for their turn to run alone.
    waiting: Sequence[UUID] = ()
    #: Attempts that were out of tries, and have failed.
    exhausted: Sequence[EndedAttempt] = ()
    #: Whether any may wait to run alone, of this set or others.
    others_may_wait: bool = True


# A worker locks the row that it processes, so SKIP LOCKED skips exactly the running ones. Without
# `dispatched_at` an attempt waits already. A future time is from before the clock was set back.
_SET_APART = f"""
    WITH free AS MATERIALIZED (
        SELECT id FROM account_import_process
        WHERE state = '{ImportState.IN_PROGRESS}'
          AND abs(extract(epoch FROM now() - dispatched_at)) >= %(age)s
          AND (%(attempt_ids)s::uuid[] IS NULL OR attempt_id = ANY (%(attempt_ids)s::uuid[]))
        ORDER BY dispatched_at LIMIT 500 FOR UPDATE SKIP LOCKED)
    UPDATE account_import_process process SET runs_alone = true, dispatched_at = NULL, tries = tries + 1
    FROM free WHERE process.id = free.id
    RETURNING attempt_id AS id, tries
"""


def set_apart(session: Session, attempt_ids: Sequence[UUID] | None = None, *, age: float = 0.0) -> SetApart:
    """Let attempts that were given to workers, but are not running, wait for their turn to run alone.

    This applies only to `attempt_ids` if given, and only to attempts given out at least `age` seconds ago.
    Those out of tries fail instead. The caller notifies their requests after the commit.
    """
    transaction = OpenTransaction.of(session)
    rows = transaction.lock(_SET_APART, {"attempt_ids": attempt_ids, "age": age})
    failed = [fail_attempt(transaction, row.id, out_of_tries()) for row in rows if row.tries > MAX_TRIES]
    return SetApart([row.id for row in rows if row.tries <= MAX_TRIES], [it for it in failed if it])


def is_waiting(session: Session) -> bool:
    """Return whether attempts wait for their turn to run alone."""
    waiting = f"SELECT process.id FROM account_import_process process WHERE {_ALONE} LIMIT 1"
    return bool(OpenTransaction.of(session).execute(waiting, {}))
