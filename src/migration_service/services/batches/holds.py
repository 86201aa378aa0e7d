"""What keeps a batch from going on: an undo of its accounts, or of another wave of its plan."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.errors import BatchStateError
from migration_service.models import Batch, Undo, Wave, WavePlan


def require_no_undo(session: Session, batch: Batch) -> None:
    """Lock the batch, and the plan if it is a wave. Raise BatchStateError while accounts are being undone.

    The undo has the accounts that existed when it was started. It would not revert those that the batch
    creates meanwhile.
    """
    locked = {"key_share": True}
    undone = [batch.id]
    plan_id = session.scalar(select(Wave.plan_id).where(Wave.batch_id == batch.id))
    if plan_id:
        session.get_one(WavePlan, plan_id, populate_existing=True, with_for_update=locked)
        undone = [*session.scalars(select(Wave.batch_id).where(Wave.plan_id == plan_id))]
    session.refresh(batch, with_for_update=locked)
    running = select(Undo.id).where(Undo.finished_at.is_(None), Undo.batch_id.in_(undone))
    if undo_id := session.scalars(running.order_by(Undo.id).limit(1)).one_or_none():
        what = "this plan" if plan_id else "this batch"
        raise BatchStateError(
            f"Undo {undo_id} of accounts of {what} runs. Wait until it is over, or cancel it."
        )
