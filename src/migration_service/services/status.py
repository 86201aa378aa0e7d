"""How far imports are: the status of one account, and the three lists (sections 4.4 to 4.7)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.errors import AccountNotFoundError
from migration_service.models import AccountImportProcess, ImportState, ImportSupplier
from migration_service.services.imports import find_process


class ReportedStatus(StrEnum):
    """What the status endpoint says (section 3.2)."""

    #: No account exists; an earlier attempt failed or none was made.
    UNKNOWN = "UNKNOWN"
    #: A migration process is creating the account at this moment.
    IN_PROGRESS = "IN_PROGRESS"
    #: The account has been created.
    COMPLETED = "COMPLETED"


_REPORTED = {
    ImportState.PENDING: ReportedStatus.UNKNOWN,
    ImportState.SKIPPED: ReportedStatus.UNKNOWN,
    ImportState.IN_PROGRESS: ReportedStatus.IN_PROGRESS,
    ImportState.IMPORTED: ReportedStatus.COMPLETED,
}


class ListKind(StrEnum):
    """Which account imports a list has."""

    ALL = "all"
    PENDING = "pending"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True)
class ListedImport:
    """One entry of a list (section 4.5)."""

    external_account_number: str
    service_account_number: str | None
    account_created_at: datetime | None


def get_status(
    session: Session, supplier: ImportSupplier, external_account_number: str
) -> tuple[ReportedStatus, str]:
    """The reported status and the service account number, empty until there is one (section 4.4).

    Raises AccountNotFoundError where nothing was staged for the pair.
    """
    process = find_process(session, supplier.id, external_account_number)
    if process is None:
        raise AccountNotFoundError
    return _REPORTED[ImportState(process.state)], process.service_account_number or ""


def list_imports(
    session: Session, supplier: ImportSupplier, kind: ListKind, *, after: str = "", limit: int | None = None
) -> Iterator[ListedImport]:
    """The supplier's imports in the order of their external account numbers, streamed (4.5 to 4.7).

    `after` is the number that the page before ended with. The session stays busy until the end.
    """
    statement = (
        select(
            AccountImportProcess.external_account_number,
            AccountImportProcess.service_account_number,
            AccountImportProcess.account_created_at,
        )
        .where(
            AccountImportProcess.import_supplier_id == supplier.id,
            AccountImportProcess.external_account_number > after,
        )
        .order_by(AccountImportProcess.external_account_number)
        .limit(limit)
        .execution_options(yield_per=5_000)
    )
    if kind is ListKind.PENDING:
        statement = statement.where(AccountImportProcess.state != ImportState.IMPORTED)
    elif kind is ListKind.IMPORTED:
        statement = statement.where(AccountImportProcess.state == ImportState.IMPORTED)
    for row in session.execute(statement):
        yield ListedImport(*row)
