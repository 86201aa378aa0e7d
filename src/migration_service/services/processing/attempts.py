"""Attempts, which are single runs of account creation from acceptance to outcome (sections 3.2 and 4.3).

The database row is authoritative. Messages and notifications only tell when to read it. An attempt that is no
longer the current one of its process has no effect, however often or late its message arrives.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session

from migration_service.db.sql import OpenTransaction
from migration_service.errors import (
    AccountCreationFailedError,
    DryRunSucceededError,
    ServiceError,
)
from migration_service.models import AccountImportProcess
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.schemas.json import parse_json
from migration_service.services.emails.customer_emails import record_customer_emails
from migration_service.services.imports import states
from migration_service.services.imports.states import EndedAttempt, RunningAttempt
from migration_service.services.imports.validation import validate_account
from migration_service.services.processing.creation import CreatedAccount, create_accounts
from migration_service.states import ImportState, Outcome, Profile

#: Seconds after which an attempt is given to the workers again if none of them is running it.
GIVEN_AGAIN_AFTER = 10.0
#: How often an attempt or a chunk is given to a worker before it fails. An account that crashes its worker
#: must not crash one worker after another.
MAX_TRIES = 5
#: The largest number of attempts set apart in one transaction.
_MOST_SET_APART = 500


# Includes the effect of `creation.KEEP_THE_PLAN`, to save its round trip.
_LOCK = """
    SELECT attempt.id, attempt.account_import_process_id, attempt.operations_team_id, attempt.api_key_id,
           attempt.dry_run, attempt.request_id, attempt.address, process.rules_version, process.profile,
           supplier.profile AS supplier_profile, supplier.time_zone, supplier.sends_customer_emails,
           set_config('plan_cache_mode', 'force_generic_plan', true)
    FROM attempt
    JOIN account_import_process process
         ON process.id = attempt.account_import_process_id AND process.attempt_id = attempt.id
    JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
    WHERE attempt.id = %(attempt_id)s
    FOR UPDATE OF process
"""
_LOCK_IF_FREE = f"{_LOCK} SKIP LOCKED"

_READ_PAYLOAD = """
    SELECT payload::text AS payload FROM account_import_process WHERE id = %(account_import_process_id)s
"""

_NOTE_VALIDATION = """
    UPDATE account_import_process SET rules_version = %(rules_version)s, profile = %(profile)s
    WHERE id = %(account_import_process_id)s
    RETURNING id
"""


def run_attempt(transaction: OpenTransaction, attempt_id: UUID) -> str | None:
    """Create the account of a current attempt, and return its service account number.

    Return None if there is nothing to do, because the attempt is no longer current or another worker is
    running it. The row stays locked until the transaction ends, so that no other worker runs the attempt.
    Raise a ServiceError with the reason if no account was created, which includes DryRunSucceededError. The
    caller then rolls back and records the error with `fail_attempt`.
    """
    rows = transaction.lock(_LOCK_IF_FREE, {"attempt_id": attempt_id})
    if not rows:
        return None
    (row,) = rows
    process_id = row.account_import_process_id
    if row.rules_version != RULES_VERSION or row.profile != row.supplier_profile:
        _validate_again(transaction, process_id, Profile(row.supplier_profile), row.time_zone)
    (created,) = create_accounts(transaction, {process_id: row.operations_team_id})
    if row.dry_run:
        raise DryRunSucceededError
    ended = with_account(running_attempt(row), created)
    complete_attempts(transaction, [ended], started=True, sends_customer_emails=row.sends_customer_emails)
    return created.service_account_number


def complete_attempts(
    transaction: OpenTransaction, ended: Sequence[EndedAttempt], *, started: bool, sends_customer_emails: bool
) -> None:
    """Record ended attempts (`imports.states.complete`), and an e-mail to each customer of a new account.

    `sends_customer_emails` tells whether any of their suppliers sends e-mails.
    """
    states.complete(transaction, ended, started=started)
    created = [it.attempt.account_import_process_id for it in ended if it.outcome is Outcome.SUCCEEDED]
    if created and sends_customer_emails:
        record_customer_emails(transaction, created)


def with_account(attempt: RunningAttempt, created: CreatedAccount) -> EndedAttempt:
    """Return an ended attempt that created its account."""
    number, moment = created.service_account_number, created.created_at
    return EndedAttempt(attempt, Outcome.SUCCEEDED, service_account_number=number, account_created_at=moment)


def running_attempt(row: Any) -> RunningAttempt:
    """Return the attempt in a row with its columns."""
    return RunningAttempt(**{name: getattr(row, name) for name in RunningAttempt.__slots__})


def _validate_again(transaction: OpenTransaction, process_id: int, profile: Profile, time_zone: str) -> None:
    this = {"account_import_process_id": process_id}
    (found,) = transaction.execute(_READ_PAYLOAD, this)
    validate_account(parse_json(found.payload.encode()), profile, time_zone).raise_errors()
    transaction.execute(_NOTE_VALIDATION, this | {"rules_version": RULES_VERSION, "profile": profile})


def fail_attempt(transaction: OpenTransaction, attempt_id: UUID, error: ServiceError) -> bool:
    """Record the reason why a current attempt created no account. Its process becomes PENDING again.

    Return False if the attempt is no longer current.
    """
    rows = transaction.lock(_LOCK, {"attempt_id": attempt_id})
    ended = [EndedAttempt.with_error(running_attempt(row), error) for row in rows]
    states.complete(transaction, ended, started=True)
    return bool(ended)


def withdraw_attempt(transaction: OpenTransaction, attempt_id: UUID) -> bool:
    """End an attempt that no worker has started, so that it never runs.

    Return False if a worker is running it, or if it is no longer current.
    """
    rows = transaction.lock(_LOCK_IF_FREE, {"attempt_id": attempt_id})
    ended = [EndedAttempt(running_attempt(row), Outcome.WITHDRAWN) for row in rows]
    states.complete(transaction, ended, started=True)
    return bool(ended)


def out_of_tries() -> AccountCreationFailedError:
    """Return the error of an account whose attempt ended MAX_TRIES workers."""
    return AccountCreationFailedError(f"Given up after {MAX_TRIES} tries: the worker ended each time.")


# `turn` is the position of an attempt among those of its organisation. Rows are tried one by one until one is
# not locked, so two workers take different attempts. The commit need not wait for the disk: a crash of the
# server that undoes it also cuts the worker's connection.
_TAKE_ALONE = f"""
    WITH sooner AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
    waiting AS MATERIALIZED (
        SELECT process.id, supplier.organisation_id,
               row_number() OVER (PARTITION BY supplier.organisation_id ORDER BY process.attempt_id) AS turn
        FROM account_import_process process
        JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
        WHERE process.state = '{ImportState.IN_PROGRESS}' AND process.dispatched_at IS NULL),
    next AS MATERIALIZED (
        SELECT process.id, waiting.organisation_id
        FROM waiting JOIN account_import_process process ON process.id = waiting.id, sooner
        WHERE process.state = '{ImportState.IN_PROGRESS}' AND process.dispatched_at IS NULL
          AND waiting.organisation_id <> ALL (%(served)s::bigint[])
        ORDER BY waiting.turn, process.attempt_id
        LIMIT 1 FOR UPDATE OF process SKIP LOCKED)
    UPDATE account_import_process process SET dispatched_at = now()
    FROM next WHERE process.id = next.id
    RETURNING process.attempt_id AS id, next.organisation_id,
              (SELECT count(*) FROM waiting) > 1 AS is_followed
"""


def take_alone(transaction: OpenTransaction, served: Collection[int]) -> Any:
    """Take the next attempt to run alone, from an organisation that is not in `served`, or return None.

    The row has its `id` and `organisation_id`, and whether further attempts wait (`is_followed`). The caller
    commits before running the attempt, so that an attempt that crashes its worker is detected.
    """
    rows = transaction.execute(_TAKE_ALONE, {"served": list(served)})
    return rows[0] if rows else None


@dataclass(frozen=True, slots=True)
class SetApart:
    """Attempts that will be run alone from now on."""

    #: Attempts that wait for their turn.
    waiting: Sequence[UUID] = ()
    #: Attempts that are out of tries, for the caller to give up.
    exhausted: Sequence[UUID] = ()


def set_apart(session: Session, attempt_ids: Sequence[UUID] | None = None, *, age: float = 0.0) -> SetApart:
    """Let attempts that were given to workers, but are not running, wait for their turn to run alone.

    This applies only to `attempt_ids` if given, and only to attempts given out at least `age` seconds ago. A
    worker locks the row that it processes, so SKIP LOCKED skips exactly the running ones.
    """
    # Without `dispatched_at` it waits already. A future time is from before the clock was set back.
    seconds = func.extract("epoch", func.now() - AccountImportProcess.dispatched_at)
    condition = func.abs(seconds) >= age
    if attempt_ids is not None:
        condition &= AccountImportProcess.attempt_id.in_(attempt_ids)
    # A CTE runs once, whereas a subquery may run for each row and find other rows than it locked.
    free = (
        select(AccountImportProcess.id)
        .where(AccountImportProcess.state == ImportState.IN_PROGRESS, condition)  # has an index
        .order_by(AccountImportProcess.dispatched_at)
        .limit(_MOST_SET_APART)
        .with_for_update(skip_locked=True)
        .cte()
    )
    rows = session.execute(
        update(AccountImportProcess)
        .where(AccountImportProcess.id.in_(select(free.c.id)))
        .values(runs_alone=True, dispatched_at=None, tries=AccountImportProcess.tries + 1)
        .returning(AccountImportProcess.attempt_id, AccountImportProcess.tries)
    ).all()
    return SetApart(
        [row.attempt_id for row in rows if row.tries <= MAX_TRIES],
        [row.attempt_id for row in rows if row.tries > MAX_TRIES],
    )


def is_waiting(session: Session) -> bool:
    """Return whether attempts wait for their turn to run alone."""
    is_in_progress = AccountImportProcess.state == ImportState.IN_PROGRESS
    waits = exists().where(is_in_progress, AccountImportProcess.dispatched_at.is_(None))
    return bool(session.scalar(select(waits)))
