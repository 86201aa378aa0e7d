"""Steps of a wave that both people and the sweep take, under the lock of the plan."""

from datetime import datetime

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from migration_service.models import AccountImportProcess, Batch, BatchLine, Undo, UndoLine, Wave, WavePlan
from migration_service.services.batches import clock
from migration_service.services.batches.states import CANCEL, OPEN, change_batch
from migration_service.services.batches.states import RESUME as RESUME_BATCH
from migration_service.services.waves import states
from migration_service.services.waves.forecast import forecast_start
from migration_service.services.waves.reading import lock_batch
from migration_service.services.waves.windows import Window, find_opening
from migration_service.states import BatchState, UndoOutcome, WaveState

#: The reason of a wave that was stopped because its batch was cancelled.
BATCH_CANCELLED = "batch_cancelled"
#: The states of a batch whose lines are no longer processed. Lines of a cancelled batch are open.
ENDED = (BatchState.COMPLETED, BatchState.CANCELLED)


def run_wave(session: Session, plan: WavePlan, wave: Wave, batch: Batch, *, until: datetime | None) -> None:
    """Let the batch of a wave run until `until`, or without a limit if it is None."""
    states.change_wave(session, plan, wave, states.START)
    wave.began_at = clock.read_clock(session)
    wave.forecast = forecast_start(session, plan.import_supplier_id, wave, batch)
    run_batch(session, batch, until)


def run_batch(session: Session, batch: Batch, until: datetime | None) -> None:
    """Resume a locked batch until the end of its window. Raise BatchStateError if it has ended."""
    if batch.state not in OPEN:
        change_batch(session, batch, RESUME_BATCH)
    batch.runs_until = until


def closing_time(wave: Wave, now: datetime) -> datetime | None:
    """Return the time when the window of the wave closes, or None if it is closed now."""
    opening = find_opening(Window.from_dict(wave.time_window), now) if wave.time_window else None
    return opening.closes_at if opening else None


def follow_batch(session: Session, plan: WavePlan, wave: Wave, batch: Batch) -> None:
    """Change the state of a started wave to match that of its batch."""
    if batch.state in ENDED:
        states.change_wave(session, plan, wave, states.RECONCILE)
        wave.ended_at = wave.ended_at or batch.finished_at
        wave.comparison_id = wave.differing = wave.open = None
    elif batch.state in OPEN:
        if wave.state == WaveState.PAUSED:
            states.change_wave(session, plan, wave, states.RESUME)
    elif wave.state == WaveState.RUNNING:
        states.change_wave(session, plan, wave, states.PAUSE, reason=batch.reason)
    else:
        wave.reason = batch.reason


def stop_waves(
    session: Session,
    plan: WavePlan,
    wave: Wave,
    *,
    reason: str,
    by: str | None = None,
    actor: str | None = None,
) -> None:
    """Stop a wave and every later one of its plan, and cancel their batches. Created accounts are kept.

    `by` names the person who decided, if not the actor. Raise WaveStateError if the wave has ended.
    """
    waves = session.scalars(select(Wave).where(Wave.plan_id == plan.id).order_by(Wave.number)).all()
    for stopped in (it for it in waves if it.number >= wave.number):
        states.change_wave(
            session, plan, stopped, states.STOP, details={"because": reason, **({"by": by} if by else {})}
        )
        stopped.decided_as = actor
        stopped.decided_by, stopped.decided_at, stopped.decision_reason = by or actor, func.now(), reason
        batch = lock_batch(session, stopped)
        if batch.state in CANCEL.sources:
            change_batch(session, batch, CANCEL)
    if all(states.is_over(plan, other) for other in waves):
        plan.finished_at = func.now()


def reconcile_undone(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Let a wave be reconciled again if an undo of its accounts has ended since it was last reconciled.

    Its approval becomes void, because the approved accounts no longer exist. The audit keeps it.
    """
    if wave.state not in states.UNDO.sources or wave.reconciled_at is None:
        return
    since = Undo.finished_at > wave.reconciled_at
    whole = exists().where(Undo.batch_id == wave.batch_id, since)
    named = (
        select(UndoLine)
        .join(Undo, Undo.id == UndoLine.undo_id)
        .join(AccountImportProcess, AccountImportProcess.id == UndoLine.account_import_process_id)
        # Whichever batch has created the account: another one may have done so since the wave.
        .join(BatchLine, BatchLine.external_account_number == AccountImportProcess.external_account_number)
        .where(Undo.import_supplier_id == plan.import_supplier_id, Undo.batch_id.is_(None), since)
        .where(UndoLine.outcome == UndoOutcome.REVERTED, BatchLine.batch_id == wave.batch_id)
        .exists()
    )
    if not session.scalar(select(whole | named)):
        return
    states.change_wave(session, plan, wave, states.UNDO)
    wave.comparison_id = wave.differing = wave.open = None
    wave.decided_by = wave.decided_as = wave.decided_at = wave.decision_reason = None
