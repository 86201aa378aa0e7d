"""The steps of a migration programme, as the documentation has them: what is done, and what is next."""

from collections.abc import Mapping
from dataclasses import dataclass

from flask import url_for

from migration_service.blueprints.console.access import may
from migration_service.blueprints.console.languages import gettext as _
from migration_service.services.waves.reports import PlanReport, WaveReport
from migration_service.states import BatchMode, ImportState


@dataclass(frozen=True, slots=True)
class Step:
    """A step, and the page on which it is taken."""

    number: int
    title: str
    #: `done`, `next`, `later`, or `left out` if a later one is done.
    state: str
    location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is known of a supplier's programme."""

    code: str
    #: The modes of the batches of accounts that are over.
    modes: set[BatchMode]
    #: The staged accounts by state.
    counts: Mapping[str, int]
    plan: PlanReport | None
    #: The wave of the plan that comes next. None: the plan is finished.
    current: WaveReport | None
    #: Something was refused, and is neither corrected nor acknowledged.
    is_refused: bool
    #: The wave that was reconciled last.
    reconciled: WaveReport | None
    is_live: bool
    is_closed: bool

    @property
    def is_migrated(self) -> bool:
        """Whether every staged account is created."""
        left = self.counts[ImportState.PENDING] + self.counts[ImportState.IN_PROGRESS]
        return self.counts[ImportState.IMPORTED] > 0 and not left


def list_steps(found: Progress) -> list[Step]:
    """Return the steps in their order. The next one is the first after the last that is done."""
    steps = _steps(found)
    done = [is_done for _title, is_done, _location in steps]
    last = max((place for place, is_done in enumerate(done) if is_done), default=-1)
    return [
        Step(
            place + 1,
            title,
            "done" if is_done else "left out" if place < last else "next" if place == last + 1 else "later",
            None if is_done else location,
        )
        for place, (title, is_done, location) in enumerate(steps)
    ]


def _steps(it: Progress) -> list[tuple[str, bool, str | None]]:
    """Return each step's title, whether it is done, and its page."""
    is_stored = bool(sum(it.counts.values()))
    is_settled = it.is_migrated and not it.is_refused
    is_as_staged = it.reconciled is not None and not it.reconciled.differing and not it.reconciled.open
    is_decided = it.plan is not None and (it.current is None or it.current.number > 1)
    upload, reconciliation = _page("upload.show", it), _page("suppliers.reconcile", it)
    plan = url_for("waves.show_plan", plan_id=it.plan.plan_id) if it.plan else None
    return [
        (_("Check the file"), BatchMode.VALIDATE in it.modes, upload),
        (_("Rehearse"), BatchMode.DRY_RUN in it.modes, upload),
        (_("Hand back what failed"), is_stored and BatchMode.DRY_RUN in it.modes, upload),
        (_("Store the book"), is_stored, upload),
        (_("Plan the waves"), it.plan is not None, _page("wave_planning.plan", it)),
        (_("Decide about the pilot"), is_decided, plan),
        (_("Migrate the other waves"), it.is_migrated, plan),
        (_("Import the corrected lines"), is_settled, upload),
        (_("Say what stays out"), is_settled, reconciliation),
        (_("Reconcile"), is_settled and is_as_staged, reconciliation),
        (_("Go live"), it.is_live, _page("go_live.set_moment", it)),
        (_("Close the supplier"), it.is_closed, _page("supplier_actions.set_status_of", it)),
    ]


def _page(endpoint: str, it: Progress) -> str | None:
    return url_for(endpoint, code=it.code) if may(endpoint) else None
