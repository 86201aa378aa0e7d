"""The steps of a migration programme, as in the documentation: which are done, and which is next."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from flask import url_for

from migration_service.blueprints.console.access import may
from migration_service.blueprints.console.languages import _
from migration_service.services.reconciliation.verdict import Verdict
from migration_service.services.waves.reports import PlanReport
from migration_service.states import BatchMode, ImportState, WaveState

#: The states of waves that have been carried out.
_RUN = (WaveState.CLEAN, WaveState.DIFFERS, WaveState.APPROVED)


class StepState(StrEnum):
    """The state of a step."""

    DONE = "done"
    #: There is nothing that it could be done with.
    NEEDLESS = "nothing to do"
    #: The service does not know whether it was done, and a later one is.
    UNKNOWN = "not recorded"
    #: It is not done, or not any more, and a later one is.
    OPEN = "not done"
    NEXT = "next"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Step:
    """A step, the page for it, and when and by whom it was done, as far as that is recorded."""

    number: int
    title: str
    state: StepState
    location: str | None
    at: datetime | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a supplier's programme."""

    code: str
    #: The newest batch of accounts of each mode that has ended, and when it did.
    newest: Mapping[BatchMode, tuple[UUID, datetime | None]]
    #: The lines that failed in the last rehearsal, or None if that is unknown.
    failed_in_rehearsal: int | None
    #: The staged accounts by state.
    counts: Mapping[str, int]
    plan: PlanReport | None
    verdict: Verdict
    live_at: datetime | None
    live_by: str | None
    is_live: bool
    is_closed: bool


def list_steps(found: Progress) -> list[Step]:
    """Return the steps in their order. The next one is the first to do after the last that is done."""
    steps = _steps(found)
    last = max((place for place, step in enumerate(steps) if step.state is StepState.DONE), default=-1)
    to_do = (it.number - 1 for it in steps[last + 1 :] if it.state is not StepState.NEEDLESS)
    next_one = next(to_do, None)
    return [
        replace(step, state=_state_at(step.state, place, last, next_one)) for place, step in enumerate(steps)
    ]


def _state_at(state: StepState, place: int, last: int, next_one: int | None) -> StepState:
    if place < last or state in (StepState.DONE, StepState.NEEDLESS):
        return state
    return StepState.NEXT if place == next_one else StepState.LATER


def _steps(it: Progress) -> list[Step]:
    upload, reconciliation = _page("upload.show", it), _page("suppliers.reconcile", it)
    planning, waves = _page("wave_planning.plan", it), it.plan.waves if it.plan else []
    if all(wave.state == WaveState.STOPPED for wave in waves):  # like no plan
        waves = []
    plan = url_for("waves.show_plan", plan_id=it.plan.plan_id) if it.plan and waves else planning
    rehearsal, _ended_at = it.newest.get(BatchMode.DRY_RUN, (None, None))
    rehearsed = url_for("batches.show", batch_id=rehearsal) if rehearsal else upload
    created = it.counts[ImportState.IMPORTED]
    left = it.counts[ImportState.PENDING] + it.counts[ImportState.IN_PROGRESS]
    is_migrated = created > 0 and not left
    # Nothing is open but staged accounts.
    is_complete = sum(it.counts.values()) > 0 and it.verdict.sent.open <= it.verdict.sent.staged
    no_waves = not waves and is_migrated
    pilot = waves[0] if waves else None
    is_decided = pilot is not None and pilot.is_over
    corrected = bool(waves) and is_complete and created > sum(wave.existing for wave in waves)
    steps: list[Step] = []

    def add(
        title: str,
        state: StepState,
        location: str | None,
        at: datetime | None = None,
        by: str | None = None,
    ) -> None:
        done_at, done_by = (at, by) if state is StepState.DONE else (None, None)
        steps.append(Step(len(steps) + 1, title, state, location, done_at, done_by))

    def ended_at(mode: BatchMode) -> datetime | None:
        return it.newest.get(mode, (None, None))[1]

    # A file may be checked without the service, and results may be handed back in many ways.
    checked = _known(BatchMode.VALIDATE in it.newest, otherwise=StepState.UNKNOWN)
    add(_("Check the file"), checked, upload, ended_at(BatchMode.VALIDATE))
    add(_("Rehearse"), _known(rehearsal is not None), upload, ended_at(BatchMode.DRY_RUN))
    handed_back = StepState.NEEDLESS if it.failed_in_rehearsal == 0 else StepState.UNKNOWN
    add(_("Hand back what failed"), handed_back, rehearsed)
    stored = _known(sum(it.counts.values()) > 0)
    add(_("Store the book"), stored, rehearsed, ended_at(BatchMode.STAGE))
    planned_at = it.plan.created_at if it.plan else None
    add(_("Plan the waves"), _known(bool(waves), needless=no_waves), planning, planned_at)
    decided = (pilot.decided_at, pilot.decided_by) if pilot else ()
    add(_("Decide about the pilot"), _known(is_decided, needless=no_waves), plan, *decided)
    all_run = len(waves) > 1 and all(wave.state in _RUN for wave in waves)
    finished_at = it.plan.finished_at if it.plan and waves else None
    add(_("Migrate the other waves"), _known(all_run, needless=is_migrated), plan, finished_at)
    add(_("Import the corrected lines"), _known(corrected, needless=is_complete), upload)
    acknowledged = _known(is_complete and it.verdict.sent.acknowledged > 0, needless=is_complete)
    add(_("Acknowledge what is not migrated"), acknowledged, reconciliation)
    add(_("Reconcile"), _known(it.verdict.is_clean and created > 0), reconciliation, it.verdict.compared_at)
    add(_("Go live"), _known(it.is_live), _page("go_live.set_moment", it), it.live_at, it.live_by)
    add(_("Close the supplier"), _known(it.is_closed), _page("supplier_actions.set_status_of", it))
    return steps


def _known(is_done: bool, *, needless: bool = False, otherwise: StepState = StepState.OPEN) -> StepState:
    return StepState.DONE if is_done else StepState.NEEDLESS if needless else otherwise


def _page(endpoint: str, it: Progress) -> str | None:
    return url_for(endpoint, code=it.code) if may(endpoint) else None
