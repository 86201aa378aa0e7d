"""Attempts as a resource, which report the outcome of each request to create an account."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Row, Select, select
from sqlalchemy.orm import Session

from migration_service.errors import (
    AccountCreationFailedError,
    AccountNotFoundError,
    AttemptNotFoundError,
    ErrorItem,
    NoWorkerAvailableError,
    ServiceError,
)
from migration_service.models import AccountImportProcess, Attempt, ImportSupplier
from migration_service.services.imports.status import find_process
from migration_service.services.setup.suppliers import KnownSupplier, require_supplier_allowed
from migration_service.states import AttemptState, Outcome


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """One attempt, with the numbers of its account."""

    attempt_id: UUID
    import_supplier: str
    external_account_number: str
    dry_run: bool
    outcome: Outcome | None
    service_account_number: str | None
    #: The error with which a waiting request fails. None if the attempt succeeded or is still running.
    error: ServiceError | None
    created_at: datetime
    finished_at: datetime | None

    @property
    def state(self) -> AttemptState:
        """Return whether the attempt has ended."""
        return AttemptState.FINISHED if self.outcome else AttemptState.IN_PROGRESS


def get_attempt(session: Session, organisation_id: int, attempt_id: str) -> AttemptReport:
    """Return an attempt of the caller's organisation.

    Raise AttemptNotFoundError if it does not exist, and PermissionDeniedError if the caller's key is limited
    to other import suppliers.
    """
    try:
        wanted = UUID(attempt_id)
    except ValueError:
        raise AttemptNotFoundError(found=attempt_id) from None
    row = session.execute(
        _select().where(Attempt.id == wanted, ImportSupplier.organisation_id == organisation_id)
    ).one_or_none()
    if row is None:
        raise AttemptNotFoundError(found=attempt_id)
    require_supplier_allowed(row.import_supplier_id, row.code)
    return _report(row)


def list_attempts(
    session: Session,
    supplier: KnownSupplier,
    external_account_number: str,
    *,
    before: UUID | None,
    limit: int,
) -> list[AttemptReport]:
    """Return the attempts of an account that are older than `before`, newest first.

    Raise AccountNotFoundError if the account is not staged.
    """
    process = find_process(session, supplier.id, external_account_number)
    if process is None:
        raise AccountNotFoundError
    # Ids are chronological (`db.base.new_id`).
    statement = _select().where(Attempt.account_import_process_id == process.id).order_by(Attempt.id.desc())
    if before is not None:
        statement = statement.where(Attempt.id < before)
    return [_report(row) for row in session.execute(statement.limit(limit))]


def read_attempts(session: Session, account_import_process_id: int) -> Sequence[Attempt]:
    """Return all attempts of an account import process, oldest first."""
    owned = Attempt.account_import_process_id == account_import_process_id
    return session.scalars(select(Attempt).where(owned).order_by(Attempt.created_at)).all()


def failure_of(attempt: Attempt) -> ServiceError | None:
    """Return the error with which a request that waits for an attempt fails.

    Return None if the attempt has created the account, or has not ended.
    """
    match attempt.outcome:
        case None | Outcome.SUCCEEDED:
            return None
        case Outcome.WITHDRAWN:
            return NoWorkerAvailableError()
    errors = [ErrorItem(item["code"], item["detail"], item["attr"]) for item in attempt.errors or ()]
    return AccountCreationFailedError(attempt.error_detail, code=attempt.error_code, errors=errors)


def _select() -> Select[Attempt, str, str, int]:
    return (
        select(
            Attempt,
            ImportSupplier.code,
            AccountImportProcess.external_account_number,
            AccountImportProcess.import_supplier_id,
        )
        .join(AccountImportProcess, AccountImportProcess.id == Attempt.account_import_process_id)
        .join(ImportSupplier, ImportSupplier.id == AccountImportProcess.import_supplier_id)
    )


def _report(row: Row[Attempt, str, str, int]) -> AttemptReport:
    attempt, import_supplier, external_account_number, _ = row
    return AttemptReport(
        attempt_id=attempt.id,
        import_supplier=import_supplier,
        external_account_number=external_account_number,
        dry_run=attempt.dry_run,
        outcome=Outcome(attempt.outcome) if attempt.outcome else None,
        service_account_number=attempt.service_account_number,
        error=failure_of(attempt),
        created_at=attempt.created_at,
        finished_at=attempt.finished_at,
    )
