"""Stopping a wave and every later one."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.models import Batch, Wave, WavePlan
from migration_service.services.batches.states import CANCEL, change_batch
from migration_service.services.waves.states import STOP, change_wave, is_over

#: Why a wave was stopped whose batch somebody cancelled.
BATCH_CANCELLED = "batch_cancelled"


def stop_waves(
    session: Session,
    plan: WavePlan,
    wave: Wave,
    *,
    reason: str,
    by: str | None = None,
    actor: str | None = None,
) -> None:
    """Stop a wave and every later one of its plan, and cancel their batches. What was created stays.

    `by` is the name of whoever decided, if that is not the actor. Raise WaveStateError if it is over.
    """
    later = select(Wave).where(Wave.plan_id == plan.id, Wave.number >= wave.number).order_by(Wave.number)
    for stopped in session.scalars(later).all():
        change_wave(session, plan, stopped, STOP, details={"because": reason, **({"by": by} if by else {})})
        stopped.decided_by, stopped.decided_at, stopped.decision_reason = by or actor, func.now(), reason
        batch = session.get_one(Batch, stopped.batch_id, populate_existing=True)
        if batch.state in CANCEL.sources:
            change_batch(session, batch, CANCEL)
    others = session.scalars(select(Wave).where(Wave.plan_id == plan.id)).all()
    if all(is_over(plan, other) for other in others):
        plan.finished_at = func.now()
