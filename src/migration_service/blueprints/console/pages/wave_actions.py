"""Forms to act on a wave. Each one first shows how many accounts it affects."""

from collections.abc import Callable
from uuid import UUID

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from migration_service.blueprints.console.access import plan_of
from migration_service.blueprints.console.acting import ActionForm, Done, Facts, Preview, act, reason_field
from migration_service.blueprints.console.display import zoned
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import ngettext
from migration_service.errors import WaveNotFoundError
from migration_service.models import Wave, WavePlan
from migration_service.services.batches.results.counts import count_open
from migration_service.services.waves import acts
from migration_service.services.waves.reading import lock_wave
from migration_service.services.waves.reports import PlanReport, WaveReport, report_plan
from migration_service.states import LineStatus, WaveState

blueprint = Blueprint("wave_actions", __name__, url_prefix="/waves/<uuid:plan_id>/<int:number>")

_Change = Callable[[Session, WavePlan, Wave], None]


class DecisionForm(ActionForm):
    """The reason of a decision."""

    reason = reason_field()


@blueprint.route("/start/", methods=["GET", "POST"])
def start(plan_id: UUID, number: int) -> Response:
    """Start a wave by hand."""

    def preview(_plan: PlanReport, wave: WaveReport) -> Preview:
        return Preview(
            title=_("Start wave %(number)s", number=number),
            sentence=ngettext(
                "The import of %(num)s account starts.", "The import of %(num)s accounts starts.", wave.lines
            ),
            button=ngettext("Import %(num)s account", "Import %(num)s accounts", wave.lines),
            back=_page_of(plan_id, number),
            facts=((_("Paused after"), _describe_brake(wave)),),
        )

    return _act(plan_id, number, preview, acts.start_wave, _l("The wave has started."))


@blueprint.route("/pause/", methods=["GET", "POST"])
def pause(plan_id: UUID, number: int) -> Response:
    """Pause a wave until it is resumed by hand."""

    def preview(_plan: PlanReport, wave: WaveReport) -> Preview:
        return Preview(
            title=_("Pause wave %(number)s", number=number),
            sentence=ngettext(
                "%(num)s remaining account waits until the wave is resumed by hand, whatever its window.",
                "%(num)s remaining accounts wait until the wave is resumed by hand, whatever its window.",
                count_open(wave.counts),
            ),
            button=_("Pause"),
            back=_page_of(plan_id, number),
        )

    return _act(plan_id, number, preview, acts.pause_wave, _l("The wave is paused."))


@blueprint.route("/resume/", methods=["GET", "POST"])
def resume(plan_id: UUID, number: int) -> Response:
    """Resume a paused wave."""

    def preview(_plan: PlanReport, wave: WaveReport) -> Preview:
        left = count_open(wave.counts)
        return Preview(
            title=_("Resume wave %(number)s", number=number),
            sentence=ngettext(
                "The import of %(num)s remaining account continues: now, or in the next window.",
                "The import of %(num)s remaining accounts continues: now, or in the next window.",
                left,
            ),
            button=_("Resume"),
            back=_page_of(plan_id, number),
            facts=((_("Failed so far"), wave.counts[LineStatus.FAILED]),),
        )

    return _act(plan_id, number, preview, acts.resume_wave, _l("The wave is resumed."))


@blueprint.route("/reconcile/", methods=["GET", "POST"])
def reconcile(plan_id: UUID, number: int) -> Response:
    """Reconcile a wave again, after something was corrected or acknowledged."""

    def preview(_plan: PlanReport, wave: WaveReport) -> Preview:
        return Preview(
            title=_("Reconcile wave %(number)s again", number=number),
            sentence=ngettext(
                "%(num)s account is compared with what was staged.",
                "%(num)s accounts are compared with what was staged.",
                wave.lines,
            ),
            button=_("Reconcile again"),
            back=_page_of(plan_id, number),
            facts=_found(wave),
        )

    return _act(plan_id, number, preview, acts.reconcile_wave, _l("The wave is being reconciled."))


@blueprint.route("/approve/", methods=["GET", "POST"])
def approve(plan_id: UUID, number: int) -> Response:
    """Approve a wave so that the next one can start, whatever reconciliation found."""
    form = DecisionForm()

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
            facts=_found(wave),
        )

    def change(session: Session, plan: WavePlan, wave: Wave) -> None:
        acts.approve_wave(session, plan, wave, reason=str(form.reason.data))

    return _act(plan_id, number, preview, change, _l("The wave is approved."), form=form)


@blueprint.route("/stop/", methods=["GET", "POST"])
def stop(plan_id: UUID, number: int) -> Response:
    """Stop a wave and every later one permanently."""
    form = DecisionForm()

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

    def change(session: Session, plan: WavePlan, wave: Wave) -> None:
        acts.stop_wave(session, plan, wave, reason=str(form.reason.data))

    return _act(plan_id, number, preview, change, _l("The wave is stopped, and every later one."), form=form)


def _act(
    plan_id: UUID,
    number: int,
    preview: Callable[[PlanReport, WaveReport], Preview],
    change: _Change,
    message: object,
    *,
    form: ActionForm | None = None,
) -> Response:
    def show(session: Session) -> Preview:
        plan = report_plan(session, plan_of(session, plan_id))
        wave = next((it for it in plan.waves if it.number == number), None)
        if wave is None:
            raise WaveNotFoundError(found=str(number))
        return preview(plan, wave)

    def perform(session: Session) -> Done:
        plan = plan_of(session, plan_id)
        change(session, plan, lock_wave(session, plan, number))
        return Done(str(message))

    return act(form or ActionForm(), show, perform, feeds=True)


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
    return _("%(threshold)s errors", threshold=wave.brake["stop_after_errors"]) if wave.brake else _("never")


def _page_of(plan_id: UUID, number: int) -> str:
    return url_for("waves.show", plan_id=plan_id, number=number)
