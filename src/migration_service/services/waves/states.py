"""The states of a wave: the table of changes, and the only function that makes these changes.

    (none)      plan_waves -->  PLANNED
    PLANNED     -- QUEUE -->    WAITING       the wave before was reconciled, or there is none before
    WAITING     -- START -->    RUNNING       its window opened, or a person started it
    RUNNING     -- PAUSE -->    PAUSED        an error threshold, the end of the window, or a person
    PAUSED      -- RESUME -->    RUNNING
    RUNNING, PAUSED      -- RECONCILE -->  RECONCILING     every line has an outcome
    CLEAN, DIFFERS       -- REOPEN -->     RUNNING         its failed lines are retried
    CLEAN, DIFFERS       -- RECONCILE_AGAIN -->    RECONCILING     a person had it compared again
    CLEAN, DIFFERS, APPROVED -- UNDO -->   RECONCILING     an undo of its accounts has ended
    RECONCILING -- FIND_CLEAN -->      CLEAN
    RECONCILING -- FIND_DIFFERENCE --> DIFFERS
    CLEAN, DIFFERS       -- APPROVE -->    APPROVED
    all but APPROVED     -- STOP -->       STOPPED

The audit records each change. Except in reconciliation, the caller holds the lock of the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from migration_service.errors import WaveStateError
from migration_service.models import Wave, WavePlan
from migration_service.services.audit.entries import AuditAction, record
from migration_service.states import WaveState


@dataclass(frozen=True, slots=True)
class WaveChange:
    """A change from any of `sources` to `target`."""

    sources: tuple[WaveState, ...]
    target: WaveState
    action: AuditAction


#: The results of reconciliation, about which a person may decide.
DECIDABLE = (WaveState.CLEAN, WaveState.DIFFERS)

QUEUE = WaveChange((WaveState.PLANNED,), WaveState.WAITING, AuditAction.WAVE_QUEUED)
START = WaveChange((WaveState.WAITING,), WaveState.RUNNING, AuditAction.WAVE_STARTED)
PAUSE = WaveChange((WaveState.RUNNING,), WaveState.PAUSED, AuditAction.WAVE_PAUSED)
RESUME = WaveChange((WaveState.PAUSED,), WaveState.RUNNING, AuditAction.WAVE_RESUMED)
_STARTED = (WaveState.RUNNING, WaveState.PAUSED)
RECONCILE = WaveChange(_STARTED, WaveState.RECONCILING, AuditAction.WAVE_RECONCILED)
REOPEN = WaveChange(DECIDABLE, WaveState.RUNNING, AuditAction.WAVE_REOPENED)
RECONCILE_AGAIN = WaveChange(DECIDABLE, WaveState.RECONCILING, AuditAction.WAVE_RECONCILED)
UNDO = WaveChange((*DECIDABLE, WaveState.APPROVED), WaveState.RECONCILING, AuditAction.WAVE_UNDONE)
FIND_CLEAN = WaveChange((WaveState.RECONCILING,), WaveState.CLEAN, AuditAction.WAVE_FOUND_CLEAN)
FIND_DIFFERENCE = WaveChange((WaveState.RECONCILING,), WaveState.DIFFERS, AuditAction.WAVE_FOUND_DIFFERENT)
APPROVE = WaveChange(DECIDABLE, WaveState.APPROVED, AuditAction.WAVE_APPROVED)
_UNDECIDED = tuple(state for state in WaveState if state not in (WaveState.APPROVED, WaveState.STOPPED))
STOP = WaveChange(_UNDECIDED, WaveState.STOPPED, AuditAction.WAVE_STOPPED)


def change_wave(
    session: Session,
    plan: WavePlan,
    wave: Wave,
    change: WaveChange,
    *,
    reason: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Lock the wave, change its state and record that. Raise WaveStateError if that is not allowed."""
    session.flush()
    session.refresh(wave, with_for_update=True)
    if wave.state not in change.sources:
        raise WaveStateError(
            f"The wave is {wave.state}. This is only possible if it is {' or '.join(change.sources)}."
        )
    wave.state = change.target
    wave.reason = reason
    told = {**(details or {}), **({"reason": reason} if reason else {}), "batch_id": str(wave.batch_id)}
    record_act(session, plan, wave, change.action, told)


def record_act(
    session: Session, plan: WavePlan, wave: Wave, action: AuditAction, details: Mapping[str, Any]
) -> None:
    """Record an act on a wave in the audit."""
    subject = f"{plan.id} {wave.number}"
    record(session, action, "wave", subject, organisation_id=plan.organisation_id, details=details)


def continues_if_clean(plan: WavePlan, wave: Wave) -> bool:
    """Return whether the next wave starts automatically if this one is clean."""
    return plan.continue_if_clean if wave.continue_if_clean is None else wave.continue_if_clean


def is_over(plan: WavePlan, wave: Wave) -> bool:
    """Return whether the wave has ended, so that the next wave may start."""
    if wave.state == WaveState.CLEAN:
        return continues_if_clean(plan, wave)
    return wave.state in (WaveState.APPROVED, WaveState.STOPPED)
