"""Attempts: one run of account creation each, from acceptance to outcome (sections 3.2 and 4.3).

The database row decides what happens; messages and wake-ups only say when to look at it. An attempt that
is not its process's current one any more does nothing, however often and late its message arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import and_, func, select, text, update
from sqlalchemy.orm import Session

from migration_service.db.statements import Statements, Transaction
from migration_service.errors import (
    DryRunSucceededError,
    ErrorItem,
    ServiceError,
)
from migration_service.models import AccountImportProcess, Attempt
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.schemas.json import parse_json
from migration_service.services.imports.validation import validate_account
from migration_service.services.processing.creation import CreationJob, create_accounts
from migration_service.services.processing.customer_emails import record_customer_emails
from migration_service.slots import LiveAttempt
from migration_service.states import ImportState, Outcome, Profile

#: A message is published again for an attempt that nobody works on after this long.
REDISPATCH_AFTER = "10 seconds"
#: How often an attempt is delivered before it fails: an account that kills its worker must not loop.
MAX_TRIES = 5

_CURRENT = and_(
    AccountImportProcess.id == Attempt.account_import_process_id,
    AccountImportProcess.attempt_id == Attempt.id,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """How an attempt ended, as the waiting request needs it; `outcome` None: it has not."""

    outcome: Outcome | None
    service_account_number: str | None
    error_code: str | None
    error_detail: str | None
    errors: list[ErrorItem]


# With what `creation.KEEP_THE_PLAN` does, to save its round trip.
_TAKE = """
    SELECT process.id, process.rules_version, process.profile, attempt.operations_team_id, attempt.dry_run,
           supplier.profile AS supplier_profile, supplier.sends_customer_emails,
           set_config('plan_cache_mode', 'force_generic_plan', true)
    FROM attempt
    JOIN account_import_process process
         ON process.id = attempt.account_import_process_id AND process.attempt_id = attempt.id
    JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
    WHERE attempt.id = %(attempt_id)s
    FOR UPDATE OF process SKIP LOCKED
"""

_COMPLETE = """
    WITH imported AS (
        UPDATE account_import_process
        SET state = 'IMPORTED', attempt_id = NULL, service_account_number = %(service_account_number)s,
            account_created_at = %(created_at)s
        WHERE id = %(account_import_process_id)s
    )
    UPDATE attempt
    SET outcome = 'SUCCEEDED', finished_at = now(), service_account_number = %(service_account_number)s
    WHERE id = %(attempt_id)s
    RETURNING id
"""

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


def run_attempt(transaction: Transaction, attempt_id: UUID) -> str | None:
    """Create the account of a current attempt, and answer its service account number.

    None: there is nothing to do (any more). The row stays locked until the caller's transaction ends, so
    nobody else runs the attempt meanwhile. A ServiceError says why there is no account,
    DryRunSucceededError included: the caller rolls back, and records it with `fail_attempt`.
    """
    rows = transaction.lock(_TAKE, {"attempt_id": attempt_id})
    if not rows:
        return None
    (row,) = rows
    if row.rules_version != RULES_VERSION or row.profile != row.supplier_profile:
        _validate_again(transaction, row.id, Profile(row.supplier_profile))
    (created,) = create_accounts(transaction, [CreationJob(row.id, row.operations_team_id)])
    if row.dry_run:
        raise DryRunSucceededError
    transaction.execute(
        _COMPLETE,
        {
            "attempt_id": attempt_id,
            "account_import_process_id": row.id,
            "service_account_number": created.service_account_number,
            "created_at": created.created_at,
        },
    )
    if row.sends_customer_emails:
        record_customer_emails(transaction, [row.id])
    return created.service_account_number


def _validate_again(transaction: Transaction, process_id: int, profile: Profile) -> None:
    this = {"account_import_process_id": process_id}
    (found,) = transaction.execute(_READ_PAYLOAD, this)
    validate_account(parse_json(found.payload.encode()), profile).raise_errors()
    transaction.execute(_NOTE_VALIDATION, this | {"rules_version": RULES_VERSION, "profile": profile})


def fail_attempt(session: Session, attempt_id: UUID, error: ServiceError) -> bool:
    """Record why a current attempt made no account; it is PENDING again. False where it is not current."""
    dry_run = isinstance(error, DryRunSucceededError)
    return _end(
        session,
        attempt_id,
        outcome=Outcome.DRY_RUN_SUCCEEDED if dry_run else Outcome.FAILED,
        error_code=error.code,
        error_detail=error.detail,
        errors=[item.to_dict() for item in error.errors],
    )


def withdraw_attempt(session: Session, attempt_id: UUID) -> bool:
    """Take back an attempt that no worker is on: it will never run. False where one is, or it ended."""
    free = session.execute(
        select(AccountImportProcess.id)
        .join(Attempt, _CURRENT)
        .where(Attempt.id == attempt_id)
        .with_for_update(of=AccountImportProcess, skip_locked=True)
    ).first()
    return free is not None and _end(session, attempt_id, outcome=Outcome.WITHDRAWN)


def _end(session: Session, attempt_id: UUID, **values: Any) -> bool:
    process_id = session.scalar(
        update(AccountImportProcess)
        .where(AccountImportProcess.attempt_id == attempt_id, Attempt.id == attempt_id, _CURRENT)
        .values(state=ImportState.PENDING, attempt_id=None)
        .returning(AccountImportProcess.id)
    )
    if process_id is None:
        return False
    session.execute(update(Attempt).where(Attempt.id == attempt_id).values(finished_at=func.now(), **values))
    return True


def find_answer(statements: Statements, attempt_id: UUID) -> Answer:
    """How the attempt ended, or that it has not."""
    (row,) = statements.execute(_FIND_ANSWER, {"attempt_id": attempt_id})
    errors = [ErrorItem(item["code"], item["detail"], item["attr"]) for item in row.errors or ()]
    outcome = Outcome(row.outcome) if row.outcome else None
    return Answer(outcome, row.service_account_number, row.error_code, row.error_detail, errors)


def list_attempts(session: Session, account_import_process_id: int) -> Sequence[Attempt]:
    """Every attempt of an account import process, the oldest first."""
    return session.scalars(
        select(Attempt)
        .where(Attempt.account_import_process_id == account_import_process_id)
        .order_by(Attempt.created_at)
    ).all()


def redispatch_attempts(session: Session, limit: int = 500) -> tuple[list[UUID], list[UUID]]:
    """Attempts in progress that nobody works on: (to be published again, out of tries).

    A worker holds the lock of the row it works on, so SKIP LOCKED passes over exactly those.
    """
    stuck = (
        select(AccountImportProcess.id)
        .where(
            AccountImportProcess.state == ImportState.IN_PROGRESS,
            AccountImportProcess.dispatched_at < func.now() - text(f"interval '{REDISPATCH_AFTER}'"),
        )
        .order_by(AccountImportProcess.dispatched_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    rows = session.execute(
        update(AccountImportProcess)
        .where(AccountImportProcess.id.in_(stuck))
        .values(dispatched_at=func.now(), tries=AccountImportProcess.tries + 1)
        .returning(AccountImportProcess.attempt_id, AccountImportProcess.tries)
    ).all()
    again = [row.attempt_id for row in rows if row.tries <= MAX_TRIES]
    return again, [row.attempt_id for row in rows if row.tries > MAX_TRIES]


def count_redelivery(session: Session, attempt_id: UUID) -> bool:
    """Count a message that came back because its worker died; true where that was the last try.

    Redelivery is at once, so an account that kills its worker would otherwise kill one after the other
    until the sweep has counted to the end.
    """
    free = (
        select(AccountImportProcess.id)
        .where(AccountImportProcess.attempt_id == attempt_id)
        .with_for_update(skip_locked=True)
    )
    tries = session.scalar(
        update(AccountImportProcess)
        .where(AccountImportProcess.id.in_(free))
        .values(dispatched_at=func.now(), tries=AccountImportProcess.tries + 1)
        .returning(AccountImportProcess.tries)
    )
    return tries is not None and tries > MAX_TRIES


def list_live_attempts(session: Session, among: Sequence[UUID] | None = None) -> list[LiveAttempt]:
    """The attempts in progress, as the slots know them; only those of `among` where it is given."""
    statement = select(AccountImportProcess.attempt_id).where(
        AccountImportProcess.state == ImportState.IN_PROGRESS
    )
    if among is not None:
        statement = statement.where(AccountImportProcess.attempt_id.in_(among))
    return [LiveAttempt(str(attempt_id)) for attempt_id in session.scalars(statement)]
