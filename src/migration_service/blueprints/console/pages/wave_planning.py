"""Planning of waves: the accounts of each wave and when it runs. A preview is shown first."""

from flask import Blueprint, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from migration_payloads.schemas.base import load
from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.acting import Done, Facts, Preview, act
from migration_service.blueprints.console.display import write_threshold
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import ngettext, write_number
from migration_service.blueprints.console.ordering import team_choices
from migration_service.blueprints.console.wave_forms import ROWS, PlanForm
from migration_service.blueprints.console.windows import write_window
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import RequestFailedValidationError
from migration_service.schemas.waves import WavePlanBodySchema
from migration_service.services.batches import clock
from migration_service.services.waves.orders import MAX_WAVES, PlanOrder, WaveOrder, read_plan
from migration_service.services.waves.plans import count_pending, plan_waves, preview_plan

blueprint = Blueprint("wave_planning", __name__, url_prefix="/suppliers/<code>/waves")


@blueprint.route("/new/", methods=["GET", "POST"])
def plan(code: str) -> Response:
    """Plan waves. The form shows how many accounts each wave gets before anything is stored."""
    form = PlanForm(time_zone=resources().settings.console_time_zone)
    if "more" in request.form:
        for _row in range(min(ROWS, MAX_WAVES - len(form.waves))):
            form.waves.append_entry()
    with resources().Session.begin() as session:
        form.team.choices = team_choices(session, supplier_of(session, code).organisation_id)

    def preview(session: Session) -> Preview:
        return Preview(
            title=_("Plan waves for %(code)s", code=code),
            sentence=ngettext(
                "%(num)s account is pending. Preview how it is divided into waves before you create the "
                "plan.",
                "%(num)s accounts are pending. Preview how they are divided into waves before you "
                "create the plan.",
                count_pending(session, supplier_of(session, code).id),
            ),
            button=_("Make this plan"),
            back=url_for("waves.show_all", supplier=code),
        )

    def find_effects(session: Session) -> Facts:
        order = _read(session, form, code)
        found = preview_plan(session, supplier_of(session, code), order)
        facts = [
            (_name_of(number, wave), _describe(order, wave, size))
            for number, (wave, size) in enumerate(zip(order.waves, found.sizes, strict=True), start=1)
        ]
        older = [(_("Of these, a newer version was refused"), found.older_versions)]
        return (*facts, (_("In no wave"), found.unplanned), *(older if found.older_versions else ()))

    def perform(session: Session) -> Done:
        made = plan_waves(session, supplier_of(session, code), _read(session, form, code))
        return Done(_("The plan is created."), url_for("waves.show_plan", plan_id=made.id))

    return act(form, preview, perform, find_effects=find_effects, template="wave_plan.html")


def _read(session: Session, form: PlanForm, code: str) -> PlanOrder:
    """Return the plan in the form. It is read like the body of a request."""
    body, errors = load(WavePlanBodySchema(), form.read(code))
    if errors:
        raise RequestFailedValidationError(errors=errors)
    return read_plan(body, now=clock.read_clock(session))


def _name_of(number: int, wave: WaveOrder) -> str:
    return f"{number} · {wave.name}" if wave.name else _("Wave %(number)s", number=number)


def _describe(order: PlanOrder, wave: WaveOrder, size: int) -> str:
    """Return how many accounts a wave has, when it may start, its limits, and what follows it."""
    accounts = ngettext("%(num)s account", "%(num)s accounts", size)
    if wave.window is None and wave is order.waves[0]:
        start = _("%(accounts)s, started by hand", accounts=accounts)
    elif wave.window is None:
        start = _("%(accounts)s, after the previous wave", accounts=accounts)
    else:
        window = write_window(wave.window.to_dict())
        start = _("%(accounts)s, at %(window)s", accounts=accounts, window=window)
    parts = [start]
    if wave.error_threshold is not None:
        words = write_threshold(wave.error_threshold.to_report())
        parts.append(_("paused when %(words)s", words=words))
    if wave.lines_per_minute is not None:
        parts.append(_("at most %(n)s per minute", n=write_number(wave.lines_per_minute)))
    if wave is not order.waves[-1]:
        continues = order.continue_if_clean if wave.continue_if_clean is None else wave.continue_if_clean
        parts.append(_("then the next one if it is clean") if continues else _("then a person decides"))
    return "; ".join(parts)
