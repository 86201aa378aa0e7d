"""Reports about plans and their waves. The names are those of the interface."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session

from migration_service.db.base import one_of
from migration_service.models import Batch, ImportSupplier, OperationsTeam, Wave, WavePlan
from migration_service.services.batches import clock
from migration_service.services.batches.error_thresholds import brake_to_report
from migration_service.services.batches.results.counts import count_lines
from migration_service.services.batches.results.reverted import Reverted, count_created, count_reverted
from migration_service.services.batches.undo_guards import find_undos_of_plans
from migration_service.services.waves.states import continues_if_clean, is_over
from migration_service.services.waves.windows import Window, next_opening
from migration_service.states import LineStatus, WaveState, WaveWait


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveReport:
    """A wave and its progress."""

    number: int
    name: str | None
    state: str
    #: The reason why it is PAUSED, and what it is WAITING for.
    reason: str | None
    waits_for: WaveWait | None
    #: The earlier wave whose approval it is waiting for.
    waits_for_wave: int | None
    #: Whether the next wave starts automatically if this one is clean.
    continue_if_clean: bool
    batch_id: UUID
    lines: int
    counts: dict[str, int]
    window: dict[str, Any] | None
    #: The current or next opening of its window. None if it no longer needs one, or there is none.
    opens_at: datetime | None
    closes_at: datetime | None
    lines_per_minute: int | None
    brake: dict[str, Any] | None
    strata: list[dict[str, Any]] | None
    began_at: datetime | None
    reconciled_at: datetime | None
    differing: int | None
    open: int | None
    #: The numbers of accounts reverted by undos of the wave, and of its accounts that exist now.
    reverted: int
    existing: int
    #: The running undo of this wave.
    undo_id: UUID | None
    decided_by: str | None
    decided_at: datetime | None
    decision_reason: str | None

    @property
    def is_over(self) -> bool:
        """Return whether the next wave may start."""
        is_clean = self.state == WaveState.CLEAN and self.continue_if_clean
        return is_clean or self.state in (WaveState.APPROVED, WaveState.STOPPED)

    @property
    def undone(self) -> int:
        """Return the number of accounts that were reverted and do not exist now."""
        return count_created(self.counts) - self.existing


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
    #: The number of pending accounts that are in no wave.
    unplanned: int
    #: How many of these were left out because a newer version of them was refused.
    older_versions: int
    #: The running undo of a wave. The plan waits until it has ended.
    undo_id: UUID | None
    waves: list[WaveReport]


def report_plan(session: Session, plan: WavePlan) -> PlanReport:
    """Return a plan with the progress of each wave."""
    (report,) = report_plans(session, [plan])
    return report


def report_plans(session: Session, plans: Sequence[WavePlan]) -> list[PlanReport]:
    """Return plans with the progress of each wave, with a constant number of statements."""
    if not plans:
        return []
    ids = [plan.id for plan in plans]
    found = session.scalars(
        select(Wave).where(one_of(Wave.plan_id.expression, ids)).order_by(Wave.number)
    ).all()
    waves: dict[UUID, list[Wave]] = {plan_id: [] for plan_id in ids}
    for wave in found:
        waves[wave.plan_id].append(wave)
    batch_ids = [wave.batch_id for wave in found]
    batches = session.scalars(select(Batch).where(one_of(Batch.id.expression, batch_ids)))
    suppliers = {plan.import_supplier_id for plan in plans}
    teams = {plan.operations_team_id for plan in plans}
    read = _Read(
        suppliers=_read_names(session, ImportSupplier.id, ImportSupplier.code, suppliers),
        teams=_read_names(session, OperationsTeam.id, OperationsTeam.name, teams),
        now=clock.read_clock(session),
        batches={batch.id: batch for batch in batches},
        counts=count_lines(session, batch_ids),
        reverted=count_reverted(session, batch_ids),
        undos=find_undos_of_plans(session, ids),
    )
    return [_report_plan(plan, waves[plan.id], read) for plan in plans]


def _read_names(
    session: Session,
    key: InstrumentedAttribute[int],
    name: InstrumentedAttribute[str],
    wanted: Collection[int],
) -> dict[int, str]:
    rows = session.execute(select(key, name).where(one_of(key.expression, wanted)))
    return {row[0]: row[1] for row in rows}


@dataclass(frozen=True, slots=True)
class _Read:
    """Rows that are read for all plans together."""

    #: Codes and names, by id.
    suppliers: dict[int, str]
    teams: dict[int, str]
    now: datetime
    batches: dict[UUID, Batch]
    #: The number of lines by status, by the id of the batch.
    counts: dict[UUID, dict[str, int]]
    #: By the id of the batch.
    reverted: dict[UUID, Reverted]
    #: By the id of the batch.
    undos: dict[UUID, UUID]


def _report_plan(plan: WavePlan, waves: Sequence[Wave], read: _Read) -> PlanReport:
    return PlanReport(
        plan_id=plan.id,
        import_supplier=read.suppliers[plan.import_supplier_id],
        operations_team_name=read.teams[plan.operations_team_id],
        name=plan.name,
        seed=plan.seed,
        continue_if_clean=plan.continue_if_clean,
        created_at=plan.created_at,
        finished_at=plan.finished_at,
        unplanned=plan.unplanned,
        older_versions=plan.older_versions,
        undo_id=min((read.undos[it.batch_id] for it in waves if it.batch_id in read.undos), default=None),
        waves=[_report_wave(plan, wave, read, _find_earlier(plan, waves, wave)) for wave in waves],
    )


def _report_wave(plan: WavePlan, wave: Wave, read: _Read, earlier: int | None) -> WaveReport:
    batch, counts = read.batches[wave.batch_id], read.counts[wave.batch_id]
    reverted = read.reverted.get(wave.batch_id, Reverted())
    needed = wave.state in (WaveState.PLANNED, WaveState.WAITING, WaveState.RUNNING, WaveState.PAUSED)
    window = Window.from_dict(wave.time_window) if wave.time_window and needed else None
    opening = next_opening(window, read.now) if window else None
    return WaveReport(
        number=wave.number,
        name=wave.name,
        state=wave.state,
        reason=wave.reason,
        waits_for=_waits_for(wave, earlier),
        waits_for_wave=earlier if wave.state == WaveState.WAITING else None,
        continue_if_clean=continues_if_clean(plan, wave),
        batch_id=wave.batch_id,
        lines=batch.lines,
        counts={status.value: counts.get(status, 0) for status in LineStatus},
        window=wave.time_window,
        opens_at=opening.opens_at if opening else None,
        closes_at=opening.closes_at if opening else None,
        lines_per_minute=batch.lines_per_minute,
        brake=brake_to_report(batch.brake),
        strata=wave.strata,
        began_at=wave.began_at,
        reconciled_at=wave.reconciled_at,
        differing=wave.differing,
        open=wave.open,
        reverted=reverted.accounts,
        existing=count_created(counts) - reverted.undone,
        undo_id=read.undos.get(wave.batch_id),
        decided_by=wave.decided_by,
        decided_at=wave.decided_at,
        decision_reason=wave.decision_reason,
    )


def _find_earlier(plan: WavePlan, waves: Sequence[Wave], wave: Wave) -> int | None:
    """Return the first unfinished wave before this one, or None."""
    return next((it.number for it in waves if it.number < wave.number and not is_over(plan, it)), None)


def _waits_for(wave: Wave, earlier: int | None) -> WaveWait | None:
    """Return the reason for which a wave waits. If it is None, the next sweep starts a WAITING wave."""
    if wave.state != WaveState.WAITING:
        return None
    if earlier is not None:
        return WaveWait.APPROVAL
    if wave.time_window:
        return WaveWait.WINDOW
    return WaveWait.PERSON if wave.number == 1 else None
