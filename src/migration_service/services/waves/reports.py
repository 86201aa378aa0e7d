"""Reports about plans and their waves. The names are those of the interface."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import Batch, ImportSupplier, OperationsTeam, Wave, WavePlan
from migration_service.services.batches import clock
from migration_service.services.batches.results.counts import count_lines, count_open
from migration_service.services.batches.results.reverted import Reverted, count_created, count_reverted
from migration_service.services.batches.undo_guards import find_undos_of_plans
from migration_service.services.waves import forecast
from migration_service.services.waves.states import continues_if_clean, is_over
from migration_service.services.waves.windows import Window, next_opening
from migration_service.states import LineStatus, WaveState, WaveWait

#: The columns of a wave, and of a plan, that their reports have, too.
_OF_WAVE = (
    *("number", "name", "state", "reason", "batch_id", "strata", "began_at", "began_by", "reconciled_at"),
    *("ended_at", "differing", "open", "decided_by", "decided_as", "decided_at", "decision_reason"),
)
_OF_PLAN = (
    *("name", "seed", "continue_if_clean", "created_at", "finished_at", "unplanned", "older_versions"),
)
#: The states of a wave whose lines may still run, which needs its window.
_MAY_RUN = (WaveState.PLANNED, WaveState.WAITING, WaveState.RUNNING, WaveState.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveReport:
    """A wave and its progress."""

    number: int
    name: str | None
    state: str
    reason: str | None
    waits_for: WaveWait | None
    waits_for_wave: int | None
    continue_if_clean: bool
    batch_id: UUID
    lines: int
    counts: dict[str, int]
    window: dict[str, Any] | None
    #: The current or next opening of its window. None if it no longer needs one, or there is none.
    opens_at: datetime | None
    closes_at: datetime | None
    lines_per_minute: int | None
    operations_team_name: str
    brake: dict[str, Any] | None
    strata: list[dict[str, Any]] | None
    began_at: datetime | None
    began_by: str | None
    #: When every line first had an outcome.
    ended_at: datetime | None
    reconciled_at: datetime | None
    differing: int | None
    open: int | None
    #: The numbers of accounts reverted by undos of the wave, and of its accounts that exist now.
    reverted: int
    existing: int
    undo_id: UUID | None
    decided_by: str | None
    decided_as: str | None
    decided_at: datetime | None
    decision_reason: str | None
    #: The members of its `services.waves.forecast.Forecast`: when it started or, before that, now. A list of
    #: plans has only those of the start.
    seconds_50: float | None = None
    seconds_90: float | None = None
    ends_at_50: datetime | None = None
    ends_at_90: datetime | None = None
    fits_window: bool | None = None

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
    unplanned: int
    older_versions: int
    #: The running undo of a wave. The plan waits until it has ended.
    undo_id: UUID | None
    waves: list[WaveReport]


def report_plan(session: Session, plan: WavePlan) -> PlanReport:
    """Return a plan with the progress of each wave, and a forecast of those that have not started."""
    (report,) = report_plans(session, [plan])
    return replace(report, waves=_forecast(session, plan, report.waves))


def _forecast(session: Session, plan: WavePlan, waves: Sequence[WaveReport]) -> list[WaveReport]:
    """Add the forecasts. Each wave may start when the wave before it has ended."""
    runs = (
        forecast.read_runs(session, plan.import_supplier_id)
        if any(it.state in _MAY_RUN for it in waves)
        else []
    )
    now = clock.read_clock(session)
    starts = (now, now)
    reports = []
    for wave in waves:
        left = count_open(wave.counts)
        seconds = (
            forecast.estimate_seconds(runs, left, wave.lines_per_minute) if wave.state in _MAY_RUN else None
        )
        if seconds:
            found = forecast.forecast_end(seconds, wave.window, starts)
            starts = (found.ends_at_50 or starts[0], found.ends_at_90 or starts[1])
            reports.append(replace(wave, **asdict(found)) if wave.began_at is None else wave)
        else:
            reports.append(wave)
    return reports


def report_plans(session: Session, plans: Sequence[WavePlan]) -> list[PlanReport]:
    """Return plans with the progress of each wave, with a constant number of statements."""
    if not plans:
        return []
    ids = [plan.id for plan in plans]
    wanted = select(Wave).where(one_of(Wave.plan_id.expression, ids)).order_by(Wave.number)
    found = session.scalars(wanted).all()
    batch_ids = [wave.batch_id for wave in found]
    batches = session.scalars(select(Batch).where(one_of(Batch.id.expression, batch_ids)))
    teams = (
        select(Batch.id, OperationsTeam.name)
        .join(OperationsTeam, OperationsTeam.id == Batch.operations_team_id)
        .where(one_of(Batch.id.expression, batch_ids))
    )
    names = (
        select(WavePlan.id, ImportSupplier.code, OperationsTeam.name)
        .join(ImportSupplier, ImportSupplier.id == WavePlan.import_supplier_id)
        .join(OperationsTeam, OperationsTeam.id == WavePlan.operations_team_id)
        .where(one_of(WavePlan.id.expression, ids))
    )
    read = _Read(
        names={plan_id: (code, team) for plan_id, code, team in session.execute(names)},
        now=clock.read_clock(session),
        batches={batch.id: batch for batch in batches},
        teams={row.id: row.name for row in session.execute(teams)},
        counts=count_lines(session, batch_ids),
        reverted=count_reverted(session, batch_ids),
        undos=find_undos_of_plans(session, ids),
    )
    return [_report_plan(plan, [it for it in found if it.plan_id == plan.id], read) for plan in plans]


@dataclass(frozen=True, slots=True)
class _Read:
    """Rows that are read for all plans together, most by the id of the batch."""

    #: The code of the supplier and the name of the team, by plan.
    names: dict[UUID, tuple[str, str]]
    now: datetime
    batches: dict[UUID, Batch]
    teams: dict[UUID, str]
    counts: dict[UUID, dict[str, int]]
    reverted: dict[UUID, Reverted]
    undos: dict[UUID, UUID]


def _report_plan(plan: WavePlan, waves: Sequence[Wave], read: _Read) -> PlanReport:
    supplier, team = read.names[plan.id]
    first_open = next((wave.number for wave in waves if not is_over(plan, wave)), None)
    return PlanReport(
        **{name: getattr(plan, name) for name in _OF_PLAN},
        plan_id=plan.id,
        import_supplier=supplier,
        operations_team_name=team,
        undo_id=min((read.undos[it.batch_id] for it in waves if it.batch_id in read.undos), default=None),
        waves=[_report_wave(plan, wave, read, first_open) for wave in waves],
    )


def _report_wave(plan: WavePlan, wave: Wave, read: _Read, first_open: int | None) -> WaveReport:
    earlier = first_open if first_open is not None and first_open < wave.number else None
    batch, counts = read.batches[wave.batch_id], read.counts[wave.batch_id]
    reverted = read.reverted.get(wave.batch_id, Reverted())
    window = Window.from_dict(wave.time_window) if wave.time_window and wave.state in _MAY_RUN else None
    opening = next_opening(window, read.now) if window else None
    is_waiting = wave.state == WaveState.WAITING
    # A WAITING wave that waits for nothing is started by the next sweep.
    waits_for = WaveWait.PERSON if wave.number == 1 else None
    if earlier is not None or wave.time_window:
        waits_for = WaveWait.WINDOW if earlier is None else WaveWait.APPROVAL
    return WaveReport(
        **{name: getattr(wave, name) for name in _OF_WAVE},
        waits_for=waits_for if is_waiting else None,
        waits_for_wave=earlier if is_waiting else None,
        continue_if_clean=continues_if_clean(plan, wave),
        lines=batch.lines,
        counts={status.value: counts.get(status, 0) for status in LineStatus},
        window=wave.time_window,
        opens_at=opening.opens_at if opening else None,
        closes_at=opening.closes_at if opening else None,
        lines_per_minute=batch.lines_per_minute,
        operations_team_name=read.teams[batch.id],
        brake=batch.brake,
        reverted=reverted.accounts,
        existing=count_created(counts) - reverted.undone,
        undo_id=read.undos.get(wave.batch_id),
        **forecast.read_forecast(wave.forecast),
    )


def describe_state(wave: WaveReport) -> str:
    """Return the state of a wave, including what it waits for, why it is paused and whether it is undone."""
    words = str(wave.state)
    if wave.waits_for:
        opens = f" at {_write(wave.opens_at)}" if wave.opens_at else ", which does not open any more"
        words += {
            WaveWait.WINDOW: f" for the window{opens}",
            WaveWait.APPROVAL: f" for the approval of wave {wave.waits_for_wave}",
            WaveWait.PERSON: " for somebody to start it",
        }[wave.waits_for]
    elif wave.reason:
        words += f" ({wave.reason})"
    if wave.undo_id:
        words += ", being undone"
    return f"{words}, {wave.undone} undone" if wave.undone else words


def _write(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
