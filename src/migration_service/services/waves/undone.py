"""What an undo of a wave's accounts means for its plan.

While the undo runs, the plan holds: no wave begins or goes on. After it the wave is reconciled again. What
was reverted is open, so a person decides about the wave once more before the next one begins.
"""

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from migration_service.errors import WaveStateError
from migration_service.models import Batch, Undo, Wave, WavePlan
from migration_service.services.batches.holds import find_undo_of_plan
from migration_service.services.batches.results.reverted import NAMED
from migration_service.services.waves.states import UNDO, change_wave


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
    named = NAMED.where(Batch.id == wave.batch_id, since).exists()
    if not session.scalar(select(whole | named)):
        return
    change_wave(session, plan, wave, UNDO)
    wave.reconciled_to, wave.differing, wave.open = 0, None, None
    wave.decided_by = wave.decided_at = wave.decision_reason = None
