"""Forms to act on a wave. Each one first shows how many accounts it affects, or what it changes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, SelectField
from wtforms.validators import InputRequired

from migration_payloads.schemas.base import load
from migration_service.blueprints.console.access import plan_of
from migration_service.blueprints.console.acting import (
    ActionForm,
    Done,
    Facts,
    Preview,
    ReasonForm,
    act,
    feed_workers,
)
from migration_service.blueprints.console.acts import Act, add_acts
from migration_service.blueprints.console.display import write_threshold, zoned
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import mark, mark_plural, ngettext, write_number
from migration_service.blueprints.console.ordering import team_choices
from migration_service.blueprints.console.pages.readiness import list_facts
from migration_service.blueprints.console.pages.wave_planning import CONTINUES, Conditions, if_clean_field
from migration_service.blueprints.console.windows import write_window
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import RequestFailedValidationError, WaveNotFoundError
from migration_service.models import Wave, WavePlan
from migration_service.schemas.waves import WaveChangeBodySchema
from migration_service.services.batches import clock
from migration_service.services.batches.error_thresholds import OFF
from migration_service.services.batches.results.counts import count_open
from migration_service.services.emails.customer_emails import count_for_approval
from migration_service.services.waves import acts
from migration_service.services.waves.orders import read_change
from migration_service.services.waves.reading import get_wave, lock_wave
from migration_service.services.waves.reports import PlanReport, WaveReport, report_plan
from migration_service.services.waves.windows import Window
from migration_service.states import LineStatus, ReadyFor, WaveState

blueprint = Blueprint("wave_actions", __name__, url_prefix="/waves/<uuid:plan_id>/<int:number>")


class ChangeForm(Conditions, ActionForm):
    """The settings of a wave. What is emptied is not set any more."""

    if_clean = if_clean_field()
    team = SelectField(_l("Operations team"), validators=[InputRequired()])

    def in_order(self) -> list[Field]:
        """Return the fields in the order of the page."""
        return [*self.of_conditions(), self.if_clean, self.team]

    def read(self, brake: dict[str, Any] | None) -> dict[str, Any]:
        """Return the body of the interface. `brake` stays if its number or percentage is not changed."""
        given = {"window": None, "lines_per_minute": None, "brake": None} | self.conditions()
        if (given["brake"] or {}).get("stop_after_errors") == _stops_after(brake):
            del given["brake"]
        held = CONTINUES.get(self.if_clean.data)
        return given | {"continue_if_clean": held, "operations_team_name": self.team.data}


@blueprint.route("/change/", methods=["GET", "POST"])
def change(plan_id: UUID, number: int) -> Response:
    """Change a wave that has not started, after what changes was shown."""
    with resources().Session.begin() as session:
        plan = plan_of(session, plan_id)
        wave, own = _pick(report_plan(session, plan), number), get_wave(session, plan, number)
        choices = team_choices(session, plan.organisation_id, plan.import_supplier_id)
    window = Window.from_dict(wave.window) if wave.window else None
    form = ChangeForm(
        obj=window,
        time_zone=window.time_zone if window else resources().settings.console_time_zone,
        stop_after_errors=_stops_after(wave.brake),
        lines_per_minute=wave.lines_per_minute,
        if_clean=next((it for it, held in CONTINUES.items() if held is own.continue_if_clean), ""),
        team=wave.operations_team_name,
    )
    form.team.choices = list(dict.fromkeys((wave.operations_team_name, *choices)))

    def preview(session: Session) -> Preview:
        shown = _pick(report_plan(session, plan_of(session, plan_id)), number)
        return Preview(
            title=_("Change wave %(number)s", number=number),
            sentence=_("Its accounts stay the same. Everything else can be changed until it starts."),
            button=_("Change the wave"),
            back=_page_of(plan_id, number),
            is_empty=shown.state not in acts.NOT_STARTED,
        )

    def perform(session: Session) -> Done:
        body, errors = load(WaveChangeBodySchema(), form.read(wave.brake))
        if errors:
            raise RequestFailedValidationError(errors=errors)
        changes = read_change(body, now=clock.read_clock(session))
        acts.change_wave(session, *_lock(session, plan_id, number), changes)
        return Done(_("The wave is changed."))

    def find_effects(session: Session) -> Facts:
        before = _list_settings(_pick(report_plan(session, plan_of(session, plan_id)), number))
        with session.begin_nested() as tried:
            perform(session)
            after = _list_settings(_pick(report_plan(session, plan_of(session, plan_id)), number))
            tried.rollback()
        changed = [
            (name, f"{was} → {becomes}")
            for (name, was), (_name, becomes) in zip(before, after, strict=True)
            if was != becomes
        ]
        return tuple(changed) or ((_("What changes"), _("nothing")),)

    return act(form, preview, perform, find_effects=find_effects)


def _stops_after(brake: dict[str, Any] | None) -> str:
    return str(brake["stop_after_errors"]) if brake else OFF


def _list_settings(wave: WaveReport) -> Facts:
    limit, held = wave.lines_per_minute, not wave.continue_if_clean
    return (
        (_("Window"), write_window(wave.window) if wave.window else _("none")),
        (_("Paused when"), _describe_brake(wave)),
        (_("Accounts per minute, at most"), write_number(limit) if limit else _("no bound")),
        (_("If it is clean"), _("a person decides") if held else _("the next one starts")),
        (_("Operations team"), wave.operations_team_name),
    )


@blueprint.route("/approve/", methods=["GET", "POST"])
def approve(plan_id: UUID, number: int) -> Response:
    """Approve a wave so that the next one can start, whatever reconciliation found."""

    with resources().Session.begin() as session:
        shown = _pick(report_plan(session, plan_of(session, plan_id)), number)
        emails = count_for_approval(session, shown.batch_id)

    def preview(plan: PlanReport, wave: WaveReport) -> Preview:
        following = next((it for it in plan.waves if it.number == number + 1), None)
        if following is None:
            sentence = _("It is the last wave: the plan is finished.")
        elif following.window is None:
            sentence = ngettext(
                "Wave %(next)s starts within a few seconds, with %(num)s account.",
                "Wave %(next)s starts within a few seconds, with %(num)s accounts.",
                following.lines,
                next=following.number,
            )
        else:
            sentence = ngettext(
                "Wave %(next)s starts in its window, with %(num)s account.",
                "Wave %(next)s starts in its window, with %(num)s accounts.",
                following.lines,
                next=following.number,
            )
        return Preview(
            title=_("Approve wave %(number)s", number=number),
            sentence=sentence,
            button=_("Approve"),
            back=_page_of(plan_id, number),
            facts=(*_found(wave), (_("E-mails to customers that will be sent"), emails)),
        )

    return _act(plan_id, number, preview, acts.approve_wave, _l("The wave is approved."))


@blueprint.route("/stop/", methods=["GET", "POST"])
def stop(plan_id: UUID, number: int) -> Response:
    """Stop a wave and every later one permanently."""

    def preview(plan: PlanReport, _wave: WaveReport) -> Preview:
        stopped = [it for it in plan.waves if it.number >= number and it.state != WaveState.STOPPED]
        left = sum(count_open(it.counts) for it in stopped)
        return Preview(
            title=_("Stop wave %(number)s of %(code)s", number=number, code=plan.import_supplier),
            sentence=ngettext(
                "%(num)s remaining account is not imported. Created accounts are kept. This is permanent.",
                "%(num)s remaining accounts are not imported. Created accounts are kept. This is permanent.",
                left,
            ),
            button=ngettext("Stop %(num)s wave permanently", "Stop %(num)s waves permanently", len(stopped)),
            back=_page_of(plan_id, number),
            is_dangerous=True,
            facts=((_("Waves that are stopped"), ", ".join(str(it.number) for it in stopped)),),
        )

    return _act(plan_id, number, preview, acts.stop_wave, _l("The wave is stopped, and every later one."))


def _act(
    plan_id: UUID,
    number: int,
    preview: Callable[[PlanReport, WaveReport], Preview],
    change: Callable[..., None],
    message: object,
) -> Response:
    form = ReasonForm()

    def show(session: Session) -> Preview:
        plan = report_plan(session, plan_of(session, plan_id))
        return preview(plan, _pick(plan, number))

    def perform(session: Session) -> Done:
        change(session, *_lock(session, plan_id, number), reason=str(form.reason.data))
        return Done(str(message))

    return act(form, show, perform, afterwards=[feed_workers])


def _pick(plan: PlanReport, number: int) -> WaveReport:
    wave = next((it for it in plan.waves if it.number == number), None)
    if wave is None:
        raise WaveNotFoundError(found=str(number))
    return wave


def _lock(session: Session, plan_id: UUID, number: int) -> tuple[WavePlan, Wave]:
    plan = plan_of(session, plan_id)
    return plan, lock_wave(session, plan, number)


def _found(wave: WaveReport) -> Facts:
    """Return the results of reconciliation as facts."""
    return (
        (_("Reconciled"), zoned(wave.reconciled_at)),
        (_("Failed"), wave.counts[LineStatus.FAILED]),
        (_("Created, and different from what was staged"), _or_unknown(wave.differing)),
        (_("Open: neither created nor acknowledged"), _or_unknown(wave.open)),
    )


def _or_unknown(found: int | None) -> int | str:
    return _("not known yet") if found is None else found


def _describe_brake(wave: WaveReport) -> str:
    return write_threshold(wave.brake) if wave.brake else _("never")


def _page_of(plan_id: UUID, number: int) -> str:
    return url_for("waves.show", plan_id=plan_id, number=number)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A wave as its forms show it, and whether its window is closed now."""

    wave: WaveReport
    is_closed: bool


def _see(session: Session, plan_id: UUID, number: int) -> _Seen:
    wave = _pick(report_plan(session, plan_of(session, plan_id)), number)
    is_open = wave.opens_at is not None and wave.opens_at <= clock.read_clock(session)
    return _Seen(wave, is_closed=wave.window is not None and not is_open)


def _say_start(seen: _Seen) -> str | tuple[str, str]:
    if not seen.is_closed:
        return mark_plural("The import of %(num)s account starts.", "The import of %(num)s accounts starts.")
    if seen.wave.opens_at is None:
        return mark("The window of the wave does not open any more, so it cannot start.")
    return mark("The window of the wave is closed. The wave starts by itself when it opens.")


def _say_resume(seen: _Seen) -> tuple[str, str]:
    if seen.is_closed:
        return mark_plural(
            "The import of %(num)s remaining account continues when the window of the wave opens.",
            "The import of %(num)s remaining accounts continues when the window of the wave opens.",
        )
    return mark_plural(
        "The import of %(num)s remaining account continues now.",
        "The import of %(num)s remaining accounts continues now.",
    )


def _opening(seen: _Seen) -> Facts:
    return ((_("The window opens"), zoned(seen.wave.opens_at)),) if seen.is_closed else ()


_ACTS = [
    Act[_Seen](
        name="start",
        title=mark("Start wave %(number)s"),
        sentence=_say_start,
        number=lambda seen: seen.wave.lines,
        button=mark_plural("Import %(num)s account", "Import %(num)s accounts"),
        facts=lambda seen: (*_opening(seen), (_("Paused after"), _describe_brake(seen.wave))),
        is_empty=lambda seen: seen.is_closed,
        more_facts=lambda session, plan_id, number: list_facts(
            session, report_plan(session, plan_of(session, plan_id)).import_supplier, ReadyFor.WAVE
        ),
        done=mark("The wave has started."),
        do=lambda session, **names: acts.start_wave(session, *_lock(session, **names)),
    ),
    Act[_Seen](
        name="pause",
        title=mark("Pause wave %(number)s"),
        sentence=mark_plural(
            "%(num)s remaining account waits until the wave is resumed by hand, whatever its window.",
            "%(num)s remaining accounts wait until the wave is resumed by hand, whatever its window.",
        ),
        number=lambda seen: count_open(seen.wave.counts),
        button=mark("Pause"),
        done=mark("The wave is paused."),
        do=lambda session, **names: acts.pause_wave(session, *_lock(session, **names)),
    ),
    Act[_Seen](
        name="resume",
        title=mark("Resume wave %(number)s"),
        sentence=_say_resume,
        number=lambda seen: count_open(seen.wave.counts),
        button=mark("Resume"),
        facts=lambda seen: (*_opening(seen), (_("Failed so far"), seen.wave.counts[LineStatus.FAILED])),
        done=mark("The wave is resumed."),
        do=lambda session, **names: acts.resume_wave(session, *_lock(session, **names)),
    ),
    Act[_Seen](
        name="reconcile",
        title=mark("Reconcile wave %(number)s again"),
        sentence=mark_plural(
            "%(num)s account is compared with what was staged.",
            "%(num)s accounts are compared with what was staged.",
        ),
        number=lambda seen: seen.wave.lines,
        button=mark("Reconcile again"),
        facts=lambda seen: _found(seen.wave),
        done=mark("The wave is being reconciled."),
        do=lambda session, **names: acts.reconcile_wave(session, *_lock(session, **names)),
    ),
]
add_acts(
    blueprint,
    "/",
    _ACTS,
    show=_see,
    back=_page_of,
    afterwards=[feed_workers],
)
