"""Finding plans and waves, and locking their parts."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.errors import WaveNotFoundError, WavePlanNotFoundError
from migration_service.models import Batch, ImportSupplier, Wave, WavePlan
from migration_service.services.setup.suppliers import get_owned
from migration_service.states import WaveState


def get_plan(session: Session, plan_id: str, *, organisation_id: int | None) -> WavePlan:
    """Return the organisation's plan, or any plan if the organisation is None, as `get_owned` does."""
    return get_owned(session, WavePlan, plan_id, WavePlanNotFoundError, organisation_id)


def get_wave(session: Session, plan: WavePlan, number: int) -> Wave:
    """Return the wave with this number. Raise WaveNotFoundError if there is none."""
    wave = session.get(Wave, (plan.id, number), populate_existing=True) if number < 2**31 else None
    if wave is None:
        raise WaveNotFoundError(found=str(number))
    return wave


def lock_wave(session: Session, plan: WavePlan, number: int) -> Wave:
    """Lock the plan and return its wave with this number. Raise WaveNotFoundError if there is none."""
    # Not its key, because a foreign key of a wave, which another transaction may have locked, would have to
    # wait.
    session.refresh(plan, with_for_update={"key_share": True})
    return get_wave(session, plan, number)


def list_waves(session: Session, plan_id: UUID) -> list[Wave]:
    """Return the waves of a plan in order, refreshed from the database."""
    ordered = select(Wave).where(Wave.plan_id == plan_id).order_by(Wave.number)
    return [*session.scalars(ordered.execution_options(populate_existing=True))]


def find_wave(session: Session, batch_id: UUID | None) -> Wave | None:
    """Return the wave with this batch, or None."""
    return session.scalars(select(Wave).where(Wave.batch_id == batch_id)).one_or_none()


def lock_batch(session: Session, wave: Wave) -> Batch:
    """Lock and return the batch of a wave, so that no worker pauses it until the transaction ends."""
    locked = {"key_share": True}
    return session.get_one(Batch, wave.batch_id, populate_existing=True, with_for_update=locked)


@dataclass(frozen=True, slots=True)
class WaitingWave:
    """A reconciled wave that has not been approved or stopped."""

    wave: Wave
    import_supplier: str
    #: Seconds since it was reconciled.
    seconds: float


def list_waiting(session: Session) -> list[WaitingWave]:
    """Return the waves that wait for a decision, in order of their reconciliation.

    The condition is that of `services.waves.states.is_over`.
    """
    continues = func.coalesce(Wave.continue_if_clean, WavePlan.continue_if_clean)
    waits = (Wave.state == WaveState.DIFFERS) | ((Wave.state == WaveState.CLEAN) & ~continues)
    rows = session.execute(
        select(Wave, ImportSupplier.code, func.extract("epoch", func.now() - Wave.reconciled_at))
        .join(WavePlan, WavePlan.id == Wave.plan_id)
        .join(ImportSupplier, ImportSupplier.id == WavePlan.import_supplier_id)
        .where(WavePlan.finished_at.is_(None), waits)
        .order_by(Wave.reconciled_at, Wave.plan_id, Wave.number)
    )
    return [WaitingWave(wave, code, float(seconds)) for wave, code, seconds in rows]
