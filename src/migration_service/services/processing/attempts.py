"""Attempts: one run of account creation each, from acceptance to outcome (sections 3.2 and 4.3).

The database row decides what happens. Messages and notifications only say when to read it. An attempt that is
no longer the current one of its process does nothing, however often and late its message arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, select, text, update
from sqlalchemy.orm import Session

from migration_service.db.statements import OpenTransaction, Statements
from migration_service.errors import (
    AccountCreationFailedError,
    DryRunSucceededError,
    ErrorItem,
    ServiceError,
)
from migration_service.models import AccountImportProcess, Attempt
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.schemas.json import parse_json
from migration_service.services.imports import states
from migration_service.services.imports.states import EndedAttempt, RunningAttempt
from migration_service.services.imports.validation import validate_account
from migration_service.services.processing.creation import CreatedAccount, CreationJob, create_accounts
from migration_service.services.processing.customer_emails import record_customer_emails
from migration_service.states import ImportState, Outcome, Profile

#: After this time a message is published again for an attempt that no worker runs.
REDISPATCH_AFTER = "10 seconds"
#: How often an attempt, or a chunk of a batch, is given to a worker before it fails. An account that crashes
#: its worker must not crash one after the other.
MAX_TRIES = 5


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How an attempt ended, as the waiting request needs it. `outcome` is None if it has not ended."""

    outcome: Outcome | None
    service_account_number: str | None
    error_code: str | None
    error_detail: str | None
    errors: list[ErrorItem]


# With what `creation.KEEP_THE_PLAN` does, to save its round trip.
_LOCK = """
    SELECT attempt.id, attempt.account_import_process_id, attempt.operations_team_id, attempt.api_key_id,
           attempt.dry_run, attempt.request_id, attempt.address, process.rules_version, process.profile,
           supplier.profile AS supplier_profile, supplier.sends_customer_emails,
           set_config('plan_cache_mode', 'force_generic_plan', true)
    FROM attempt
    JOIN account_import_process process
         ON process.id = attempt.account_import_process_id AND process.attempt_id = attempt.id
    JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
    WHERE attempt.id = %(attempt_id)s
    FOR UPDATE OF process
"""
_LOCK_IF_FREE = f"{_LOCK} SKIP LOCKED"

_FIND_ANSWER = """
    SELECT outcome, service_account_number, error_code, error_detail, errors
    FROM attempt WHERE id = %(attempt_id)s
"""

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

    Return None if nothing is to be done, because the attempt is no longer current or another worker runs it.
    The row stays locked until the transaction ends, so that no other worker runs the attempt meanwhile. Raise
    a ServiceError that says why no account was created, DryRunSucceededError included. The caller then rolls
    back, and records the error with `fail_attempt`.
    """
    rows = transaction.lock(_LOCK_IF_FREE, {"attempt_id": attempt_id})
    if not rows:
        return None
    (row,) = rows
    process_id = row.account_import_process_id
    if row.rules_version != RULES_VERSION or row.profile != row.supplier_profile:
        _validate_again(transaction, process_id, Profile(row.supplier_profile))
    (created,) = create_accounts(transaction, [CreationJob(process_id, row.operations_team_id)])
    if row.dry_run:
        raise DryRunSucceededError
    ended = with_account(running_attempt(row), created)
    complete_attempts(transaction, [ended], begun=True, sends_customer_emails=row.sends_customer_emails)
    return created.service_account_number


def complete_attempts(
    transaction: OpenTransaction, ended: Sequence[EndedAttempt], *, begun: bool, sends_customer_emails: bool
) -> None:
    """Record ended attempts (`imports.states.complete`), and an e-mail for each customer of a new account.

    No e-mail is recorded if the supplier does not send any.
    """
    states.complete(transaction, ended, begun=begun)
    created = [it.attempt.account_import_process_id for it in ended if it.outcome is Outcome.SUCCEEDED]
    if created and sends_customer_emails:
        record_customer_emails(transaction, created)


def with_account(attempt: RunningAttempt, created: CreatedAccount) -> EndedAttempt:
    """Return an attempt that created its account."""
    number, moment = created.service_account_number, created.created_at
    return EndedAttempt(attempt, Outcome.SUCCEEDED, service_account_number=number, account_created_at=moment)


def running_attempt(row: Any) -> RunningAttempt:
    """Return the attempt of a row that has its columns."""
    return RunningAttempt(**{name: getattr(row, name) for name in RunningAttempt.__slots__})


def _validate_again(transaction: OpenTransaction, process_id: int, profile: Profile) -> None:
    this = {"account_import_process_id": process_id}
    (found,) = transaction.execute(_READ_PAYLOAD, this)
    validate_account(parse_json(found.payload.encode()), profile).raise_errors()
    transaction.execute(_NOTE_VALIDATION, this | {"rules_version": RULES_VERSION, "profile": profile})


def fail_attempt(transaction: OpenTransaction, attempt_id: UUID, error: ServiceError) -> bool:
    """Record why a current attempt created no account. Its process becomes PENDING again.

    Return False if the attempt is no longer current.
    """
    rows = transaction.lock(_LOCK, {"attempt_id": attempt_id})
    ended = [EndedAttempt.with_error(running_attempt(row), error) for row in rows]
    states.complete(transaction, ended, begun=True)
    return bool(ended)


def withdraw_attempt(transaction: OpenTransaction, attempt_id: UUID) -> bool:
    """End an attempt that no worker has taken, so that it never runs.

    Return False if a worker runs it, or if it is no longer current.
    """
    rows = transaction.lock(_LOCK_IF_FREE, {"attempt_id": attempt_id})
    ended = [EndedAttempt(running_attempt(row), Outcome.WITHDRAWN) for row in rows]
    states.complete(transaction, ended, begun=True)
    return bool(ended)


def out_of_tries() -> AccountCreationFailedError:
    """Return the error of an account whose attempt ended MAX_TRIES workers."""
    return AccountCreationFailedError(f"Given up after {MAX_TRIES} tries: the worker ended each time.")


def find_answer(statements: Statements, attempt_id: UUID) -> AttemptResult | None:
    """Return how the attempt ended, or that it has not ended. Return None if there is no such attempt."""
    rows = statements.execute(_FIND_ANSWER, {"attempt_id": attempt_id})
    if not rows:
        return None
    (row,) = rows
    errors = [ErrorItem(item["code"], item["detail"], item["attr"]) for item in row.errors or ()]
    outcome = Outcome(row.outcome) if row.outcome else None
    return AttemptResult(outcome, row.service_account_number, row.error_code, row.error_detail, errors)


def list_attempts(session: Session, account_import_process_id: int) -> Sequence[Attempt]:
    """Return every attempt of an account import process, the oldest first."""
    return session.scalars(
        select(Attempt)
        .where(Attempt.account_import_process_id == account_import_process_id)
        .order_by(Attempt.created_at)
    ).all()


def redispatch_attempts(session: Session, limit: int = 500) -> tuple[list[UUID], list[UUID]]:
    """Return the attempts in progress that no worker runs: (to be published again, out of tries)."""
    stuck = AccountImportProcess.dispatched_at < func.now() - text(f"interval '{REDISPATCH_AFTER}'")
    rows = _count_try(session, stuck, limit)
    again = [row.attempt_id for row in rows if row.tries <= MAX_TRIES]
    return again, [row.attempt_id for row in rows if row.tries > MAX_TRIES]


def set_apart(session: Session, attempt_ids: Sequence[UUID] | None = None) -> list[UUID]:
    """Take attempts out of the sets, so that each runs alone. Return them: each needs a message of its own.

    Only those of `attempt_ids` if it is given, and otherwise all that wait. A set has attempts at their first
    try only (`sets`), so counting a try is enough. Attempts that a worker runs are left alone.
    """
    condition = AccountImportProcess.tries == 1
    if attempt_ids is not None:
        condition &= AccountImportProcess.attempt_id.in_(attempt_ids)
    return [row.attempt_id for row in _count_try(session, condition)]


def count_redelivery(session: Session, attempt_id: UUID) -> bool:
    """Count a message that was redelivered because its worker died. Return whether that was the last try.

    Redelivery is immediate. An account that crashes its worker would otherwise crash one after the other
    until the sweep has counted enough tries.
    """
    counted = _count_try(session, AccountImportProcess.attempt_id == attempt_id)
    return any(row.tries > MAX_TRIES for row in counted)


def _count_try(session: Session, condition: ColumnElement[bool], limit: int | None = None) -> Sequence[Any]:
    """Count a try of the attempts in progress that no worker runs and that meet `condition`.

    Return (attempt_id, tries) of each, the oldest first up to `limit`. A worker holds the lock of the row it
    works on, so SKIP LOCKED skips exactly those.
    """
    # A CTE runs once. A subquery may run again for each row, and then finds others than those it locked.
    free = (
        select(AccountImportProcess.id)
        .where(AccountImportProcess.state == ImportState.IN_PROGRESS, condition)  # the state is indexed
        .order_by(AccountImportProcess.dispatched_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte()
    )
    return session.execute(
        update(AccountImportProcess)
        .where(AccountImportProcess.id.in_(select(free.c.id)))
        .values(dispatched_at=func.now(), tries=AccountImportProcess.tries + 1)
        .returning(AccountImportProcess.attempt_id, AccountImportProcess.tries)
    ).all()
