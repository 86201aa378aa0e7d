"""Wave plans: the progress of each wave, its reconciliation, and the decisions."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, request
from sqlalchemy.orm import Session

from migration_service.blueprints.console.access import plan_of, visible_codes
from migration_service.blueprints.console.charts import draw_rate, draw_timeline
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.blueprints.console.polling import BUSY, CALM, page
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.console.standstill import explain_standstill
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import WaveNotFoundError
from migration_service.models import Batch, WavePlan
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.batches.control import report_batch
from migration_service.services.batches.results.counts import list_work
from migration_service.services.batches.states import WINDOW_CLOSED
from migration_service.services.setup.suppliers import list_owned
from migration_service.services.waves.reports import PlanReport, WaveReport, report_plan, report_plans
from migration_service.states import BatchState, LineStatus, WaveState, WaveWait

blueprint = Blueprint("waves", __name__, url_prefix="/waves")

_MOVING = (WaveState.RUNNING, WaveState.RECONCILING)
#: The states in which a wave waits for a decision.
_DECIDED = (WaveState.CLEAN, WaveState.DIFFERS)
_OVER = (WaveState.APPROVED, WaveState.STOPPED)
_WAVES = (
    "number name state batch_id lines undone opens_at closes_at began_at ended_at reconciled_at differing "
    "open decided_at decided_by decision_reason " + " ".join(f"counts.{it}" for it in LineStatus)
)


@list_at(blueprint, "/")
def show_all() -> Response:
    """List the wave plans, newest first."""
    code = request.args.get("supplier") or None

    def find(session: Session, **page: Any) -> list[PlanReport]:
        return report_plans(
            session, list_owned(session, WavePlan, organisation_id=None, import_supplier=code, **page)
        )

    def more(session: Session, plans: list[PlanReport]) -> dict[str, Any]:
        return {
            "poll": _next_poll(plans),
            "suppliers": visible_codes(session),
            "chosen": code,
            "openings": list_openings(plans),
            "waiting": sum(_needs_somebody(plan) for plan in plans),
        }

    columns = "plan_id import_supplier name operations_team_name created_at finished_at unplanned"
    return show_list("plans.html", find, columns, more, key="plan_id", read_key=UUID)


@list_at(blueprint, "/<uuid:plan_id>/")
def show_plan(plan_id: UUID) -> Response:
    """Show the progress of the waves of a plan."""
    with resources().Session.begin() as session:
        plan = report_plan(session, plan_of(session, plan_id))
    return show_list(
        "plan.html",
        lambda _session: plan.waves,
        _WAVES,
        lambda _session, _found: {
            "poll": _next_poll([plan]),
            "plan": plan,
            "current": find_current(plan),
            "timeline": draw_timeline(plan.waves, datetime.now(UTC)),
        },
    )


@blueprint.get("/<uuid:plan_id>/<int:number>/")
def show(plan_id: UUID, number: int) -> Response:
    """Show the progress of a wave, and the result of its reconciliation."""
    with resources().Session.begin() as session:
        found = plan_of(session, plan_id)
        plan, is_live = report_plan(session, found), has_gone_live(session, found.import_supplier_id)
        wave = pick_wave(plan, number)
        batch, work = session.get_one(Batch, wave.batch_id), list_work(session, wave.batch_id)
        rate = draw_rate(work, BatchState(batch.state), datetime.now(UTC), wave.brake)
        is_paused = wave.state == WaveState.PAUSED
        name = f"{plan_id} {number}"
        still = explain_standstill(session, report_batch(session, batch), name) if is_paused else None
    poll = None if wave.state in _OVER else BUSY if wave.state in _MOVING else CALM
    is_next = wave == find_current(plan)
    return page(
        "wave.html",
        poll=poll,
        plan=plan,
        wave=wave,
        is_live=is_live,
        is_next=is_next,
        rate=rate,
        still=still,
        remedy_of=remedy_of,
    )


def pick_wave(plan: PlanReport, number: int) -> WaveReport:
    """Return the wave with this number. Raise WaveNotFoundError if the plan has none."""
    wave = next((it for it in plan.waves if it.number == number), None)
    if wave is None:
        raise WaveNotFoundError(found=str(number))
    return wave


def find_current(plan: PlanReport) -> WaveReport | None:
    """Return the first wave of a plan that waits, runs, or needs a decision. None if the plan is finished."""
    return next((it for it in plan.waves if not it.is_over), None)


def list_openings(plans: list[PlanReport]) -> list[tuple[datetime, PlanReport, WaveReport]]:
    """Return the waves with a window, in the order of the next opening of their windows."""
    found = [
        (wave.opens_at, plan, wave)
        for plan in plans
        if plan.finished_at is None
        for wave in plan.waves
        if wave.opens_at is not None
    ]
    return sorted(found, key=lambda it: it[0])


def is_held(wave: WaveReport) -> bool:
    """Return whether a wave is paused until a person resumes it."""
    return wave.state == WaveState.PAUSED and wave.reason != WINDOW_CLOSED


def _needs_somebody(plan: PlanReport) -> bool:
    wave = find_current(plan) if plan.finished_at is None else None
    if wave is None:
        return False
    return wave.state in _DECIDED or wave.waits_for == WaveWait.PERSON or is_held(wave)


def _next_poll(plans: list[PlanReport]) -> int | None:
    open_plans = [plan for plan in plans if plan.finished_at is None]
    if any(wave.state in _MOVING for plan in open_plans for wave in plan.waves):
        return BUSY
    return CALM if open_plans else None
