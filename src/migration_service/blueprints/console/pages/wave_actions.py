"""Forms to act on a wave. Each one first shows how many accounts it affects, or what it changes."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, SelectField
from wtforms.validators import InputRequired

from migration_payloads.schemas.base import load
from migration_service.blueprints.console import acting
from migration_service.blueprints.console.access import plan_of
from migration_service.blueprints.console.display import write_threshold, write_window, zoned
from migration_service.blueprints.console.languages import _, _l, mark, mark_plural, write_number
from migration_service.blueprints.console.ordering import team_choices
from migration_service.blueprints.console.pages.readiness import list_facts
from migration_service.blueprints.console.pages.wave_planning import CONTINUES, Conditions, if_clean_field
from migration_service.blueprints.console.pages.waves import pick_wave
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import RequestFailedValidationError
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


class ChangeForm(Conditions, acting.ActionForm):
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
        wave, own = pick_wave(report_plan(session, plan), number), get_wave(session, plan, number)
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

    def preview(session: Session) -> acting.Preview:
        return acting.Preview(
            title=_("Change wave %(number)s", number=number),
            sentence=_("Its accounts stay the same. Everything else can be changed until it starts."),
            button=_("Change the wave"),
            back=_page_of(plan_id, number),
            is_empty=_report(session, plan_id, number).state not in acts.NOT_STARTED,
        )

    def perform(session: Session) -> acting.Done:
        body, errors = load(WaveChangeBodySchema(), form.read(wave.brake))
        if errors:
            raise RequestFailedValidationError(errors=errors)
        changes = read_change(body, now=clock.read_clock(session))
        acts.change_wave(session, *_lock(session, plan_id, number), changes)
        return acting.Done(_("The wave is changed."))

    def find_effects(session: Session) -> acting.Facts:
        before = _list_settings(_report(session, plan_id, number))
        with session.begin_nested() as tried:
            perform(session)
            after = _list_settings(_report(session, plan_id, number))
            tried.rollback()
        changed = [
            (name, f"{was} → {becomes}")
            for (name, was), (_name, becomes) in zip(before, after, strict=True)
            if was != becomes
        ]
        return tuple(changed) or ((_("What changes"), _("nothing")),)

    return acting.act(form, preview, perform, find_effects=find_effects)


def _stops_after(brake: dict[str, Any] | None) -> str:
    return str(brake["stop_after_errors"]) if brake else OFF


def _list_settings(wave: WaveReport) -> acting.Facts:
    limit, held = wave.lines_per_minute, not wave.continue_if_clean
    return (
        (_("Window"), write_window(wave.window) if wave.window else _("none")),
        (_("Paused when"), _describe_brake(wave)),
        (_("Accounts per minute, at most"), write_number(limit) if limit else _("no bound")),
        (_("If it is clean"), _("a person decides") if held else _("the next one starts")),
        (_("Operations team"), wave.operations_team_name),
    )


def _report(session: Session, plan_id: UUID, number: int) -> WaveReport:
    return pick_wave(report_plan(session, plan_of(session, plan_id)), number)


def _lock(session: Session, plan_id: UUID, number: int) -> tuple[WavePlan, Wave]:
    plan = plan_of(session, plan_id)
    return plan, lock_wave(session, plan, number)


def _found(wave: WaveReport) -> acting.Facts:
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
    """A wave of a plan as its forms show it, and whether its window is closed now."""

    plan: PlanReport
    wave: WaveReport
    is_closed: bool

    @property
    def following(self) -> list[WaveReport]:
        """Return the later waves in their order."""
        return [it for it in self.plan.waves if it.number > self.wave.number]

    @property
    def stopped(self) -> list[WaveReport]:
        """Return the waves that are stopped with this one."""
        return [it for it in (self.wave, *self.following) if it.state != WaveState.STOPPED]


def _see(session: Session, plan_id: UUID, number: int) -> _Seen:
    plan = report_plan(session, plan_of(session, plan_id))
    wave = pick_wave(plan, number)
    is_open = wave.opens_at is not None and wave.opens_at <= clock.read_clock(session)
    return _Seen(plan, wave, is_closed=wave.window is not None and not is_open)


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


def _say_approval(seen: _Seen) -> str | tuple[str, str]:
    if not seen.following:
        return mark("It is the last wave: the plan is finished.")
    if seen.following[0].window is None:
        return mark_plural(
            "Wave %(next)s starts within a few seconds, with %(num)s account.",
            "Wave %(next)s starts within a few seconds, with %(num)s accounts.",
        )
    return mark_plural(
        "Wave %(next)s starts in its window, with %(num)s account.",
        "Wave %(next)s starts in its window, with %(num)s accounts.",
    )


def _count_emails(session: Session, plan_id: UUID, number: int) -> acting.Facts:
    batch_id = get_wave(session, plan_of(session, plan_id), number).batch_id
    return ((_("E-mails to customers that will be sent"), count_for_approval(session, batch_id)),)


def _opening(seen: _Seen) -> acting.Facts:
    return ((_("The window opens"), zoned(seen.wave.opens_at)),) if seen.is_closed else ()


_ACTS = [
    acting.Act[_Seen](
        name="start",
        title=mark("Start wave %(number)s"),
        sentence=_say_start,
        number=lambda seen: seen.wave.lines,
        button=mark_plural("Import %(num)s account", "Import %(num)s accounts"),
        facts=lambda seen: (*_opening(seen), (_("Paused after"), _describe_brake(seen.wave))),
        is_empty=lambda seen: seen.is_closed,
        more_facts=lambda session, **names: list_facts(
            session, _see(session, **names).plan.import_supplier, ReadyFor.WAVE
        ),
        done=mark("The wave has started."),
        do=lambda session, **names: acts.start_wave(session, *_lock(session, **names)),
    ),
    acting.Act[_Seen](
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
    acting.Act[_Seen](
        name="resume",
        title=mark("Resume wave %(number)s"),
        sentence=_say_resume,
        number=lambda seen: count_open(seen.wave.counts),
        button=mark("Resume"),
        facts=lambda seen: (*_opening(seen), (_("Failed so far"), seen.wave.counts[LineStatus.FAILED])),
        done=mark("The wave is resumed."),
        do=lambda session, **names: acts.resume_wave(session, *_lock(session, **names)),
    ),
    acting.Act[_Seen](
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
    # So that the next one can start, whatever reconciliation found.
    acting.Act[_Seen](
        name="approve",
        form=acting.ReasonForm,
        title=mark("Approve wave %(number)s"),
        sentence=_say_approval,
        number=lambda seen: sum(it.lines for it in seen.following[:1]),
        button=mark("Approve"),
        facts=lambda seen: _found(seen.wave),
        more_facts=_count_emails,
        done=mark("The wave is approved."),
        do=lambda session, reason, **names: acts.approve_wave(
            session, *_lock(session, **names), reason=reason
        ),
    ),
    acting.Act[_Seen](
        name="stop",
        form=acting.ReasonForm,
        title=mark("Stop wave %(number)s of %(code)s"),
        sentence=mark_plural(
            "%(num)s remaining account is not imported. Created accounts are kept. This is permanent.",
            "%(num)s remaining accounts are not imported. Created accounts are kept. This is permanent.",
        ),
        number=lambda seen: sum(count_open(it.counts) for it in seen.stopped),
        button=mark("Stop permanently"),
        facts=lambda seen: ((_("Waves that are stopped"), ", ".join(str(it.number) for it in seen.stopped)),),
        done=mark("The wave is stopped, and every later one."),
        do=lambda session, reason, **names: acts.stop_wave(session, *_lock(session, **names), reason=reason),
        is_dangerous=True,
    ),
]
acting.add_acts(
    blueprint,
    "/",
    _ACTS,
    show=_see,
    back=_page_of,
    values=lambda seen: {"code": seen.plan.import_supplier, "next": seen.wave.number + 1},
    afterwards=[acting.feed_workers],
)
