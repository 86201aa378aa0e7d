"""What is reported of plans and their waves. The names are those of the interface."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import Batch, ImportSupplier, OperationsTeam, Wave, WavePlan
from migration_service.services.batches import clock
from migration_service.services.batches.counts import count_lines
from migration_service.services.batches.holds import find_undo_of_plan
from migration_service.services.waves.progress import list_waves
from migration_service.services.waves.states import is_over
from migration_service.services.waves.undone import count_reverted
from migration_service.services.waves.windows import Window, next_opening
from migration_service.states import LineStatus, WaveState, WaveWait


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveReport:
    """A wave and its progress."""

    number: int
    name: str | None
    state: str
    #: Why it is PAUSED, and what it waits for if it is WAITING.
    reason: str | None
    waits_for: WaveWait | None
    batch_id: UUID
    lines: int
    counts: dict[str, int]
    window: dict[str, Any] | None
    #: The opening that it is in, or the next one. None: it needs none any more, or there is none.
    opens_at: datetime | None
    closes_at: datetime | None
    lines_per_minute: int | None
    brake: dict[str, Any] | None
    strata: list[dict[str, Any]] | None
    began_at: datetime | None
    reconciled_at: datetime | None
    differing: int | None
    open: int | None
    #: Accounts that undos of the wave have reverted.
    reverted: int
    decided_by: str | None
    decided_at: datetime | None
    decision_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """A plan with its waves."""

    plan_id: UUID
    import_supplier: str
    operations_team_name: str
    name: str | None
    seed: int
    continue_if_clean: bool
    created_at: datetime
    finished_at: datetime | None
    #: Pending accounts that are in no wave.
    unplanned: int
    #: The undo of a wave that runs. The plan holds until it is over.
    undo_id: UUID | None
    waves: list[WaveReport]


def report_plan(session: Session, plan: WavePlan) -> PlanReport:
    """Return a plan with the progress of each wave."""
    session.flush()
    now, waves = clock.read_clock(session), list_waves(session, plan.id)
    batches = {
        batch.id: batch
        for batch in session.scalars(select(Batch).where(Batch.id.in_([wave.batch_id for wave in waves])))
    }
    counts, reverted = count_lines(session, [*batches]), count_reverted(session, plan.id)
    return PlanReport(
        plan_id=plan.id,
        import_supplier=session.get_one(ImportSupplier, plan.import_supplier_id).code,
        operations_team_name=session.get_one(OperationsTeam, plan.operations_team_id).name,
        name=plan.name,
        seed=plan.seed,
        continue_if_clean=plan.continue_if_clean,
        created_at=plan.created_at,
        finished_at=plan.finished_at,
        unplanned=plan.unplanned,
        undo_id=find_undo_of_plan(session, plan.id),
        waves=[
            _report_wave(
                wave,
                batches[wave.batch_id],
                counts[wave.batch_id],
                now,
                waits_for=_waits_for(plan, waves, wave),
                reverted=reverted.get(wave.number, 0),
            )
            for wave in waves
        ],
    )


def _report_wave(
    wave: Wave,
    batch: Batch,
    counts: dict[str, int],
    now: datetime,
    *,
    waits_for: WaveWait | None,
    reverted: int,
) -> WaveReport:
    needed = wave.state in (WaveState.PLANNED, WaveState.WAITING, WaveState.RUNNING, WaveState.PAUSED)
    window = Window.from_dict(wave.time_window) if wave.time_window and needed else None
    opening = next_opening(window, now) if window else None
    return WaveReport(
        number=wave.number,
        name=wave.name,
        state=wave.state,
        reason=wave.reason,
        waits_for=waits_for,
        batch_id=wave.batch_id,
        lines=batch.lines,
        counts={status.value: counts.get(status, 0) for status in LineStatus},
        window=wave.time_window,
        opens_at=opening.opens_at if opening else None,
        closes_at=opening.closes_at if opening else None,
        lines_per_minute=batch.lines_per_minute,
        brake=batch.brake,
        strata=wave.strata,
        began_at=wave.began_at,
        reconciled_at=wave.reconciled_at,
        differing=wave.differing,
        open=wave.open,
        reverted=reverted,
        decided_by=wave.decided_by,
        decided_at=wave.decided_at,
        decision_reason=wave.decision_reason,
    )


def _waits_for(plan: WavePlan, waves: Sequence[Wave], wave: Wave) -> WaveWait | None:
    if wave.state != WaveState.WAITING:
        return None
    if not all(is_over(plan, earlier) for earlier in waves if earlier.number < wave.number):
        return WaveWait.APPROVAL
    return WaveWait.WINDOW if wave.time_window else WaveWait.PERSON
