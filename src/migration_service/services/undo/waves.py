"""Undos of waves: a plan of which a wave creates accounts, or is being reconciled, is not undone."""

from sqlalchemy.orm import Session

from migration_service.errors import WaveStateError
from migration_service.models import Batch, WavePlan
from migration_service.services.batches.states import OPEN, WINDOW_CLOSED
from migration_service.services.waves.control import pause_wave
from migration_service.services.waves.progress import find_wave, follow_batch, list_waves, lock_batch
from migration_service.states import WaveState


def require_plan_at_rest(session: Session, batch: Batch) -> None:
    """Raise WaveStateError if the batch is a wave, and its plan is at work with this or another wave."""
    wave = find_wave(session, batch.id)
    for other in list_waves(session, wave.plan_id) if wave else ():
        if other.state == WaveState.RECONCILING:
            raise WaveStateError(f"Wave {other.number} of the plan is being reconciled. Wait until it is.")
        if session.get_one(Batch, other.batch_id, populate_existing=True).state in OPEN:
            detail = f"Wave {other.number} of the plan runs. Pause or stop it before you undo a wave."
            raise WaveStateError(detail)


def hold_plan(session: Session, batch: Batch) -> None:
    """Lock the plan of a batch that is a wave. Raise WaveStateError if it is at work.

    A wave that would go on in its next window waits for a person from now on.
    """
    wave = find_wave(session, batch.id)
    if wave is None:
        return
    locked = {"key_share": True}
    plan = session.get_one(WavePlan, wave.plan_id, with_for_update=locked)
    require_plan_at_rest(session, batch)  # reads the waves again
    locked_batch = lock_batch(session, wave)
    if wave.state in (WaveState.RUNNING, WaveState.PAUSED) and locked_batch.reason == WINDOW_CLOSED:
        follow_batch(session, plan, wave, locked_batch)
        pause_wave(session, plan, wave)
