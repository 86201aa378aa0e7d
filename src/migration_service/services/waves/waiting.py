"""Waves that wait for a person's decision, for monitoring and alerts."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.models import ImportSupplier, Wave, WavePlan
from migration_service.states import WaveState


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
