"""What an undo of a wave's accounts means for its plan.

While the undo runs, the plan holds: no wave begins or goes on. After it the wave is reconciled again. What
was reverted is open, so a person decides about the wave once more before the next one begins.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import exists, func, select, union_all
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.errors import WaveStateError
from migration_service.models import AccountImportProcess, BatchLine, Undo, UndoLine, Wave, WavePlan
from migration_service.services.batches.holds import find_undo_of_plan
from migration_service.services.waves.states import UNDO, change_wave
from migration_service.states import ImportState, UndoOutcome


def require_no_undo(session: Session, plan: WavePlan) -> None:
    """Raise WaveStateError if accounts of the plan are being undone."""
    if undo_id := find_undo_of_plan(session, plan.id):
        detail = f"Undo {undo_id} of accounts of this plan runs. Wait until it is over, or cancel it."
        raise WaveStateError(detail)


def reconcile_undone(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Have a wave compared again if an undo of its accounts has ended since it was last compared.

    Its approval is void, because what was approved no longer exists. The audit keeps it.
    """
    if wave.state not in UNDO.sources or wave.reconciled_at is None:
        return
    since = Undo.finished_at > wave.reconciled_at
    whole = exists().where(Undo.batch_id == wave.batch_id, since)
    named = _NAMED.where(Wave.batch_id == wave.batch_id, since).exists()
    if not session.scalar(select(whole | named)):
        return
    change_wave(session, plan, wave, UNDO)
    wave.reconciled_to, wave.differing, wave.open = 0, None, None
    wave.decided_by = wave.decided_at = wave.decision_reason = None


@dataclass(frozen=True, slots=True)
class Reverted:
    """How many accounts of a wave undos have reverted, and how many of them exist again."""

    accounts: int = 0
    again: int = 0


def count_reverted(session: Session, plan_ids: Collection[UUID]) -> dict[UUID, Reverted]:
    """Return what undos have reverted of the waves of these plans, by the batch of the wave."""
    of_these = one_of(Wave.plan_id.expression, plan_ids)
    whole = (
        select(Wave.batch_id, AccountImportProcess.state)
        .join(Undo, Undo.batch_id == Wave.batch_id)
        .join(UndoLine, UndoLine.undo_id == Undo.id)
        .outerjoin(AccountImportProcess, AccountImportProcess.id == UndoLine.account_import_process_id)
        .where(of_these, UndoLine.outcome == UndoOutcome.REVERTED)
    )
    reverted = union_all(whole, _NAMED.where(of_these)).subquery()
    again = func.count().filter(reverted.c.state == ImportState.IMPORTED)
    counted = select(reverted.c.batch_id, func.count().label("accounts"), again.label("again"))
    rows = session.execute(counted.group_by(reverted.c.batch_id))
    return {row.batch_id: Reverted(row.accounts, row.again) for row in rows}


#: The batch of a wave, for each of its accounts that an undo of named accounts has reverted.
_NAMED = (
    select(Wave.batch_id, AccountImportProcess.state)
    .join(WavePlan, WavePlan.id == Wave.plan_id)
    .join(Undo, (Undo.import_supplier_id == WavePlan.import_supplier_id) & Undo.batch_id.is_(None))
    .join(UndoLine, UndoLine.undo_id == Undo.id)
    .join(AccountImportProcess, AccountImportProcess.id == UndoLine.account_import_process_id)
    .join(
        BatchLine,
        (BatchLine.batch_id == Wave.batch_id)
        & (BatchLine.external_account_number == AccountImportProcess.external_account_number)
        & (BatchLine.service_account_number == UndoLine.service_account_number)
        # As the condition of the index has it.
        & BatchLine.chunk_line.is_(None),
    )
    .where(UndoLine.outcome == UndoOutcome.REVERTED)
)
