"""The numbers of accounts of batches that were undone, and of those that exist again."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select, union_all
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import AccountImportProcess, Batch, BatchLine, Undo, UndoLine
from migration_service.states import ImportState, LineStatus, UndoOutcome


@dataclass(frozen=True, slots=True)
class Reverted:
    """The numbers of accounts of a batch reverted by undos, and of those that exist again."""

    accounts: int = 0
    again: int = 0

    @property
    def undone(self) -> int:
        """Return the number of accounts that were reverted and do not exist now."""
        return self.accounts - self.again


_EXISTING = (LineStatus.IMPORTED, LineStatus.REPLACED, LineStatus.ALREADY_IMPORTED)


def count_created(counts: Mapping[str, int]) -> int:
    """Return the number of lines whose outcome was an existing account, from counts by status."""
    return sum(counts.get(status, 0) for status in _EXISTING)


def set_undone_apart(counts: Mapping[str, int], undone: int) -> dict[str, int]:
    """Return counts by status with `undone` accounts as UNDONE, and no longer among those that exist."""
    apart, left = {**counts, "UNDONE": undone}, undone
    for status in _EXISTING:
        here = min(left, apart.get(status, 0))
        apart[status] = apart.get(status, 0) - here
        left -= here
    return apart


def count_reverted(session: Session, batch_ids: Collection[UUID]) -> dict[UUID, Reverted]:
    """Return the Reverted of each of these batches that has any reverted accounts."""
    whole = (
        select(Undo.batch_id, AccountImportProcess.state)
        .join(UndoLine, UndoLine.undo_id == Undo.id)
        .outerjoin(AccountImportProcess, AccountImportProcess.id == UndoLine.account_import_process_id)
        .where(one_of(Undo.batch_id.expression, batch_ids), UndoLine.outcome == UndoOutcome.REVERTED)
    )
    reverted = union_all(whole, _NAMED.where(one_of(Batch.id.expression, batch_ids))).subquery()
    again = func.count().filter(reverted.c.state == ImportState.IMPORTED)
    counted = select(reverted.c.batch_id, func.count().label("accounts"), again.label("again"))
    rows = session.execute(counted.group_by(reverted.c.batch_id))
    return {row.batch_id: Reverted(row.accounts, row.again) for row in rows}


#: The batch, for each of its accounts that an undo of named accounts has reverted.
_NAMED = (
    select(Batch.id.label("batch_id"), AccountImportProcess.state)
    .join(Undo, (Undo.import_supplier_id == Batch.import_supplier_id) & Undo.batch_id.is_(None))
    .join(UndoLine, UndoLine.undo_id == Undo.id)
    .join(AccountImportProcess, AccountImportProcess.id == UndoLine.account_import_process_id)
    .join(
        BatchLine,
        (BatchLine.batch_id == Batch.id)
        & (BatchLine.external_account_number == AccountImportProcess.external_account_number)
        & (BatchLine.service_account_number == UndoLine.service_account_number)
        & BatchLine.chunk_line.is_(None),
    )
    .where(UndoLine.outcome == UndoOutcome.REVERTED)
)
