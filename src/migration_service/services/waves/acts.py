"""The acts of people on waves: change, start, pause, resume, reconcile, approve, stop, each in the audit."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service.errors import WaveStateError, WaveWindowClosedError
from migration_service.models import Batch, Wave, WavePlan
from migration_service.origin import current_origin
from migration_service.services.audit.entries import AuditAction
from migration_service.services.batches import clock
from migration_service.services.batches.control import take_over
from migration_service.services.batches.error_thresholds import (
    IMPORT_THRESHOLD,
    fit_to_wave,
    threshold_to_store,
)
from migration_service.services.batches.intake.upload import set_rate
from migration_service.services.batches.states import OPEN, WINDOW_CLOSED, change_batch, pause_for
from migration_service.services.batches.states import PAUSE as PAUSE_BATCH
from migration_service.services.batches.undo_guards import require_no_undo_of_plan, require_plan_at_rest
from migration_service.services.emails.customer_emails import release_with_approval
from migration_service.services.setup.teams import get_operations_team_id, get_operations_team_name
from migration_service.services.waves import running, states
from migration_service.services.waves.reading import find_wave, list_waves, lock_batch
from migration_service.services.waves.windows import Window, next_opening
from migration_service.states import BatchState, WaveState

#: The states of a wave that has not started, which can still be changed.
NOT_STARTED = (WaveState.PLANNED, WaveState.WAITING)


def start_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Start a wave by hand. Raise WaveStateError if it is not its turn, or WaveWindowClosedError."""
    _require_turn(session, plan, wave)
    now = clock.read_clock(session)
    until = running.closing_time(wave, now)
    if wave.time_window is not None and until is None:
        opening = next_opening(Window.from_dict(wave.time_window), now)
        at = f" It opens at {write_moment(opening.opens_at)}." if opening else ""
        raise WaveWindowClosedError(f"{WaveWindowClosedError.default_detail}{at}")
    if wave.state == WaveState.PLANNED:
        states.change_wave(session, plan, wave, states.QUEUE)
    wave.began_by = current_origin().who
    running.run_wave(session, plan, wave, lock_batch(session, wave), until=until)


def pause_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Start no more lines until a person resumes the wave, not even in its next window."""
    batch = lock_batch(session, wave)
    if wave.state == WaveState.PAUSED and batch.reason == WINDOW_CLOSED:
        batch.reason = wave.reason = None
        states.record_act(session, plan, wave, AuditAction.WAVE_PAUSED, {"batch_id": str(batch.id)})
        return
    if wave.state != WaveState.RUNNING:
        raise WaveStateError(f"The wave is {wave.state}. This is only possible if it is RUNNING.")
    if batch.state in OPEN:
        change_batch(session, batch, PAUSE_BATCH)
    running.follow_batch(session, plan, wave, batch)


def resume_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Resume a paused wave now, or in its next window if its window is closed.

    The error threshold starts counting again. Raise WaveStateError if it is not paused, or not its turn.
    """
    _require_turn(session, plan, wave)
    batch = lock_batch(session, wave)
    if wave.state != WaveState.PAUSED or batch.state not in (BatchState.PAUSED, BatchState.STOPPED):
        raise WaveStateError(f"The wave is {wave.state}. This is only possible if it is PAUSED.")
    now = clock.read_clock(session)
    until = running.closing_time(wave, now)
    is_closed = wave.time_window is not None and until is None
    # This also keeps the batch within the window if somebody then resumes the batch on its own.
    running.run_batch(session, batch, now if is_closed else until)
    take_over(session, batch)
    if is_closed:
        pause_for(session, batch.id, WINDOW_CLOSED)
        session.refresh(batch)
        states.record_act(session, plan, wave, AuditAction.WAVE_RELEASED, {"batch_id": str(batch.id)})
    running.follow_batch(session, plan, wave, batch)


def change_wave(session: Session, plan: WavePlan, wave: Wave, changes: Mapping[str, Any]) -> None:
    """Change the window, rate, error threshold, hold or team of a wave that has not started.

    `changes` are those of `orders.read_change`. Raise WaveStateError if the wave has started, and
    OperationsTeamNotFoundError.
    """
    batch = lock_batch(session, wave)
    if wave.state not in NOT_STARTED or batch.state != BatchState.PAUSED or batch.started_at is not None:
        raise WaveStateError(f"The wave is {wave.state}. Only a wave that has not started can be changed.")
    before = _values_of(session, wave, batch)
    if "window" in changes:
        wave.time_window = changes["window"].to_dict() if changes["window"] else None
    if "continue_if_clean" in changes:
        wave.continue_if_clean = changes["continue_if_clean"]
    if "error_threshold" in changes:
        threshold = fit_to_wave(changes["error_threshold"] or IMPORT_THRESHOLD, batch.lines)
        batch.brake = threshold_to_store(threshold)
    if "operations_team_name" in changes:
        name = changes["operations_team_name"]
        batch.operations_team_id = get_operations_team_id(session, plan.organisation_id, name)
    if changes.get("lines_per_minute", batch.lines_per_minute) != batch.lines_per_minute:
        set_rate(session, batch, changes["lines_per_minute"])
    after = _values_of(session, wave, batch)
    changed = {name: {"from": before[name], "to": it} for name, it in after.items() if it != before[name]}
    if changed:
        states.record_act(session, plan, wave, AuditAction.WAVE_CHANGED, changed)


def _values_of(session: Session, wave: Wave, batch: Batch) -> dict[str, Any]:
    team_id = batch.operations_team_id
    return {
        "window": wave.time_window,
        "lines_per_minute": batch.lines_per_minute,
        "brake": batch.brake,
        "continue_if_clean": wave.continue_if_clean,
        "operations_team_name": None if team_id is None else get_operations_team_name(session, team_id),
    }


def reconcile_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Reconcile a wave again, after a correction. Raise WaveStateError if it is not reconciled."""
    require_no_undo_of_plan(session, plan)
    _require_completed(session, wave)
    states.change_wave(session, plan, wave, states.RECONCILE_AGAIN)
    wave.comparison_id = wave.differing = wave.open = None


def approve_wave(session: Session, plan: WavePlan, wave: Wave, *, reason: str, by: str | None = None) -> None:
    """Let the next wave start, in its window if it has one, whatever the result of reconciliation.

    After this the failed lines of the wave can be retried at any time. Raise WaveStateError if the wave is
    not reconciled, or has ended (like a clean wave whose plan continues automatically).
    """
    require_no_undo_of_plan(session, plan)
    _require_undecided(session, plan, wave)
    batch = _require_completed(session, wave)
    found = {"differing": wave.differing, "open": wave.open}
    told = {"because": reason, **({"by": by} if by else {}), **found}
    states.change_wave(session, plan, wave, states.APPROVE, details=told)
    wave.decided_as = current_origin().who
    wave.decided_by, wave.decided_at, wave.decision_reason = by or wave.decided_as, func.now(), reason
    batch.runs_until = None
    release_with_approval(session, batch.id)


def stop_wave(session: Session, plan: WavePlan, wave: Wave, *, reason: str, by: str | None = None) -> None:
    """Stop a wave and every later one permanently. Raise WaveStateError if it has ended."""
    _require_undecided(session, plan, wave)
    running.stop_waves(session, plan, wave, reason=reason, by=by, actor=current_origin().who)


def _require_turn(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Raise WaveStateError if accounts of the plan are being undone, or an earlier wave has not ended.

    An undo can reopen an earlier wave while this one is paused.
    """
    require_no_undo_of_plan(session, plan)
    earlier = [it for it in list_waves(session, plan.id) if it.number < wave.number]
    for it in earlier:
        running.reconcile_undone(session, plan, it)
    if not all(states.is_over(plan, it) for it in earlier):
        raise WaveStateError("An earlier wave has not ended. Wait for it, or approve it, first.")


def _require_completed(session: Session, wave: Wave) -> Batch:
    """Return the batch. Raise WaveStateError if it has not ended, or its failed lines are being retried."""
    batch = lock_batch(session, wave)
    if batch.state not in running.ENDED:
        raise WaveStateError(f"The wave is {wave.state}, and its batch has not ended. Wait until it has.")
    return batch


def _require_undecided(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Raise WaveStateError if the wave has ended, so that approving or stopping it has no effect.

    The caller holds the lock of the plan, so that no sweep starts the next wave in the meantime.
    """
    if not states.is_over(plan, wave):
        return
    decision = f"The wave is {wave.state}, and its plan continues without an approval."
    if word := {WaveState.APPROVED: "approved", WaveState.STOPPED: "stopped"}.get(WaveState(wave.state)):
        by = f" by {wave.decided_by}" if wave.decided_by else ""
        at = f" at {write_moment(wave.decided_at)}" if wave.decided_at else ""
        decision = f"The wave was {word}{by}{at} already."
    raise WaveStateError(f"{decision} {_tell_consequence(session, plan, wave)}")


def _tell_consequence(session: Session, plan: WavePlan, wave: Wave) -> str:
    following = session.get(Wave, (plan.id, wave.number + 1), populate_existing=True)
    if following is None:
        return "It is the last wave of its plan."
    if following.state == WaveState.STOPPED:
        return "Every later wave is stopped."
    if following.began_at is None:
        return f"Wave {following.number} has not started. Stop that wave to keep it from starting."
    return f"Wave {following.number} started at {write_moment(following.began_at)}."


def hold_plan(session: Session, batch: Batch) -> None:
    """Lock the plan of a batch that is a wave. Raise WaveStateError if it is active.

    A wave that would resume in its next window now waits for a person.
    """
    wave = find_wave(session, batch.id)
    if wave is None:
        return
    locked = {"key_share": True}
    plan = session.get_one(WavePlan, wave.plan_id, with_for_update=locked)
    require_plan_at_rest(session, batch)  # rereads the waves
    locked_batch = lock_batch(session, wave)
    if wave.state in (WaveState.RUNNING, WaveState.PAUSED) and locked_batch.reason == WINDOW_CLOSED:
        running.follow_batch(session, plan, wave, locked_batch)
        pause_wave(session, plan, wave)
