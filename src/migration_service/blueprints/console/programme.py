"""The steps of a migration programme, as in the documentation: which are done, and which is next."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from flask import url_for

from migration_service.blueprints.console.access import may
from migration_service.blueprints.console.languages import gettext as _
from migration_service.services.reconciliation.verdict import Verdict
from migration_service.services.waves.reports import PlanReport
from migration_service.states import BatchMode, ImportState, WaveState


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
    """A step, and the page for it."""

    number: int
    title: str
    state: StepState
    location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a supplier's programme."""

    code: str
    #: The modes of the batches of accounts that have ended.
    modes: set[BatchMode]
    #: The lines that failed in the last rehearsal, or None if that is unknown.
    failed_in_rehearsal: int | None
    #: The staged accounts by state.
    counts: Mapping[str, int]
    plan: PlanReport | None
    verdict: Verdict
    is_live: bool
    is_closed: bool

    @property
    def is_migrated(self) -> bool:
        """Return whether every staged account is created."""
        left = self.counts[ImportState.PENDING] + self.counts[ImportState.IN_PROGRESS]
        return self.counts[ImportState.IMPORTED] > 0 and not left

    @property
    def is_refused(self) -> bool:
        """Return whether something besides staged accounts is open."""
        return self.verdict.sent.open > self.verdict.sent.staged

    @property
    def is_reconciled(self) -> bool:
        """Return whether accounts were created, and the verdict is clean."""
        return self.verdict.is_clean and self.counts[ImportState.IMPORTED] > 0


def list_steps(found: Progress) -> list[Step]:
    """Return the steps in their order. The next one is the first to do after the last that is done."""
    steps = _steps(found)
    last = max((place for place, step in enumerate(steps) if step[1] is StepState.DONE), default=-1)
    to_do = (place for place, step in enumerate(steps) if place > last and step[1] is not StepState.NEEDLESS)
    next_one = next(to_do, None)
    return [
        Step(place + 1, title, _state_at(state, place, last, next_one), location)
        for place, (title, state, location) in enumerate(steps)
    ]


def _state_at(state: StepState, place: int, last: int, next_one: int | None) -> StepState:
    if place < last or state in (StepState.DONE, StepState.NEEDLESS):
        return state
    return StepState.NEXT if place == next_one else StepState.LATER


def _steps(it: Progress) -> list[tuple[str, StepState, str | None]]:
    upload, reconciliation = _page("upload.show", it), _page("suppliers.reconcile", it)
    plan = url_for("waves.show_plan", plan_id=it.plan.plan_id) if it.plan else None
    is_complete = sum(it.counts.values()) > 0 and not it.is_refused
    no_waves = it.plan is None and it.is_migrated
    waves = it.plan.waves if it.plan else []
    is_decided = any(wave.state in (WaveState.APPROVED, WaveState.STOPPED) for wave in waves[:1])
    return [
        # A file may be checked without the service, and results may be handed back in many ways.
        (_("Check the file"), _known(BatchMode.VALIDATE in it.modes, otherwise=StepState.UNKNOWN), upload),
        (_("Rehearse"), _known(BatchMode.DRY_RUN in it.modes), upload),
        (
            _("Hand back what failed"),
            StepState.NEEDLESS if it.failed_in_rehearsal == 0 else StepState.UNKNOWN,
            upload,
        ),
        (_("Store the book"), _known(sum(it.counts.values()) > 0), upload),
        (
            _("Plan the waves"),
            _known(it.plan is not None, needless=no_waves),
            _page("wave_planning.plan", it),
        ),
        (_("Decide about the pilot"), _known(is_decided, needless=no_waves), plan),
        (
            _("Migrate the other waves"),
            _known(it.is_migrated and len(waves) > 1, needless=it.is_migrated),
            plan,
        ),
        (_("Import the corrected lines"), _known(False, needless=is_complete), upload),
        (
            _("Acknowledge what is not migrated"),
            _known(is_complete and it.verdict.sent.acknowledged > 0, needless=is_complete),
            reconciliation,
        ),
        (_("Reconcile"), _known(it.is_reconciled), reconciliation),
        (_("Go live"), _known(it.is_live), _page("go_live.set_moment", it)),
        (_("Close the supplier"), _known(it.is_closed), _page("supplier_actions.set_status_of", it)),
    ]


def _known(is_done: bool, *, needless: bool = False, otherwise: StepState = StepState.OPEN) -> StepState:
    return StepState.DONE if is_done else StepState.NEEDLESS if needless else otherwise


def _page(endpoint: str, it: Progress) -> str | None:
    return url_for(endpoint, code=it.code) if may(endpoint) else None
