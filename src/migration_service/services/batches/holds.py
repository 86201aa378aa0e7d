"""Undos that block a batch: of its accounts, or of another wave of its plan."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.errors import BatchStateError
from migration_service.models import Batch, Undo, Wave, WavePlan


def require_no_undo(session: Session, batch: Batch) -> None:
    """Lock the batch, and the plan if it is a wave. Raise BatchStateError while accounts are being undone.

    An undo covers the accounts that existed when it was started. It would miss any that the batch creates
    meanwhile.
    """
    locked = {"key_share": True}
    plan_id = session.scalar(select(Wave.plan_id).where(Wave.batch_id == batch.id))
    if plan_id:
        session.get_one(WavePlan, plan_id, with_for_update=locked)
    session.refresh(batch, with_for_update=locked)
    if undo_id := find_undo_of_plan(session, plan_id) if plan_id else _find_undo_of_batch(session, batch.id):
        what = "this plan" if plan_id else "this batch"
        raise BatchStateError(
            f"Undo {undo_id} of accounts of {what} runs. Wait until it is over, or cancel it."
        )


def find_undo_of_plan(session: Session, plan_id: UUID) -> UUID | None:
    """Return the unfinished undo of a wave of this plan, or None."""
    return min(find_undos_of_plans(session, [plan_id]).values(), default=None)


def find_undos_of_plans(session: Session, plan_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the unfinished undos of the waves of these plans, by batch."""
    running = (
        select(Wave.batch_id, Undo.id)
        .join(Undo, Undo.batch_id == Wave.batch_id)
        .where(Undo.finished_at.is_(None), one_of(Wave.plan_id.expression, plan_ids))
    )
    return {row.batch_id: row.id for row in session.execute(running)}


def _find_undo_of_batch(session: Session, batch_id: UUID) -> UUID | None:
    running = select(Undo.id).where(Undo.finished_at.is_(None), Undo.batch_id == batch_id)
    return session.scalars(running.order_by(Undo.id).limit(1)).one_or_none()
