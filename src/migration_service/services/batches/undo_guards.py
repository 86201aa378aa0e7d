"""Guards between undos, batches and waves: while one of them is active, the others do not start."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.errors import BatchStateError, WaveStateError
from migration_service.models import Batch, Undo, Wave, WavePlan
from migration_service.services.batches.states import OPEN
from migration_service.states import WaveState


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
            f"Undo {undo_id} of accounts of {what} is running. Wait until it has ended, or cancel it."
        )


def require_no_undo_of_plan(session: Session, plan: WavePlan) -> None:
    """Raise WaveStateError if accounts of the plan are being undone."""
    if undo_id := find_undo_of_plan(session, plan.id):
        detail = f"Undo {undo_id} of accounts of this plan is running. Wait until it has ended, or cancel it."
        raise WaveStateError(detail)


def require_batch_at_rest(batch: Batch) -> None:
    """Raise BatchStateError if the batch creates accounts."""
    if batch.state in OPEN:
        raise BatchStateError(f"The batch is {batch.state}. Pause or cancel it first.")


def require_plan_at_rest(session: Session, batch: Batch) -> None:
    """Raise WaveStateError if the batch is a wave, and its plan is at work with this or another wave."""
    own_plan = select(Wave.plan_id).where(Wave.batch_id == batch.id).scalar_subquery()
    waves = select(Wave).where(Wave.plan_id == own_plan).order_by(Wave.number)
    for other in session.scalars(waves.execution_options(populate_existing=True)).all():
        if other.state == WaveState.RECONCILING:
            raise WaveStateError(f"Wave {other.number} of the plan is being reconciled. Wait until it is.")
        if session.get_one(Batch, other.batch_id, populate_existing=True).state in OPEN:
            detail = f"Wave {other.number} of the plan is running. Pause or stop it first."
            raise WaveStateError(detail)


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
