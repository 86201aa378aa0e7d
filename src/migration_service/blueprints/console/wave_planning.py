"""Planning waves: which accounts each takes and when it runs. How they are cut is shown first."""

from datetime import time
from typing import Any

from flask import Blueprint, request, url_for
from flask_wtf import FlaskForm
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import (
    BooleanField,
    FieldList,
    FormField,
    IntegerField,
    SelectField,
    SelectMultipleField,
    StringField,
    TextAreaField,
)
from wtforms.fields import DateField, TimeField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import InputRequired, Length, NumberRange, Optional

from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.acting import ActionForm, Done, Facts, Preview, act
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import ngettext
from migration_service.blueprints.console.ordering import team_choices
from migration_service.blueprints.console.windows import DAYS, write_window
from migration_service.blueprints.resources import resources
from migration_service.errors import RequestFailedValidationError
from migration_service.schemas.base import load
from migration_service.schemas.waves import WavePlanBodySchema
from migration_service.services.batches import clock
from migration_service.services.waves.orders import MAX_WAVES, PlanOrder, WaveOrder, read_plan
from migration_service.services.waves.plans import plan_waves
from migration_service.services.waves.preview import count_pending, preview_plan

blueprint = Blueprint("wave_planning", __name__, url_prefix="/suppliers/<code>/waves")

_MOST = 2**31 - 1
#: Rows of the form at first, and how many a click adds.
_ROWS = 4


class WaveForm(FlaskForm):
    """Which accounts a wave takes."""

    class Meta:
        """The form that it is in has the token."""

        csrf = False

    name = StringField(_l("Name"), validators=[Length(max=200)])
    takes = SelectField(
        _l("Takes"),
        default="",
        choices=[
            SelectChoice("", _l("(no wave)")),
            SelectChoice("sample", _l("this many, drawn at random (first wave only)")),
            SelectChoice("size", _l("this many, in the order of their numbers")),
            SelectChoice("accounts", _l("the accounts with these numbers, one on each line")),
            SelectChoice("rest", _l("everything that is left (last wave only)")),
        ],
    )
    which = TextAreaField(_l("How many, or the account numbers"))


class PlanForm(ActionForm):
    """A plan: its waves, and what they have in common."""

    name = StringField(_l("Name of the plan"), validators=[Length(max=200)])
    team = SelectField(_l("Operations team"), validators=[InputRequired()])
    waves = FieldList(FormField(WaveForm), min_entries=_ROWS, max_entries=MAX_WAVES)
    continue_if_clean = BooleanField(_l("The wave after a clean one begins without a person"))
    start = TimeField(
        _l("The window opens at"),
        validators=[Optional()],
        description=_l("Empty: each wave is started by hand."),
    )
    end = TimeField(
        _l("The window closes at"),
        validators=[Optional()],
        description=_l("If this is earlier, on the next day."),
    )
    time_zone = StringField(_l("Time zone of the window"), description=_l("As Europe/Amsterdam."))
    first_day = DateField(
        _l("First day of the window"), validators=[Optional()], description=_l("Empty: today.")
    )
    days = SelectMultipleField(
        _l("Days on which it opens"),
        choices=[SelectChoice(day, name) for day, name in DAYS.items()],
        description=_l("None chosen: every day."),
        render_kw={"size": len(DAYS)},
    )
    stop_after_errors = StringField(
        _l("Pause a wave after"),
        validators=[Length(max=20)],
        description=_l("A number of failed accounts (100), a percentage (5%), or off. Empty: as usual."),
    )
    lines_per_minute = IntegerField(
        _l("Accounts in a minute, at most"), validators=[Optional(), NumberRange(1, _MOST)]
    )
    seed = IntegerField(
        _l("Seed of the random draw"),
        validators=[Optional(), NumberRange(0, _MOST)],
        description=_l("To draw the same accounts again. Empty: another draw each time."),
    )


@blueprint.route("/new/", methods=["GET", "POST"])
def plan(code: str) -> Response:
    """Plan waves. The form shows how many accounts each wave gets before anything is stored."""
    form = PlanForm(time_zone=resources().settings.console_time_zone)
    if "more" in request.form:
        for _row in range(min(_ROWS, MAX_WAVES - len(form.waves))):
            form.waves.append_entry()
    with resources().Session.begin() as session:
        form.team.choices = team_choices(session, supplier_of(session, code).organisation_id)

    def preview(session: Session) -> Preview:
        return Preview(
            title=_("Plan waves for %(code)s", code=code),
            sentence=ngettext(
                "%(num)s account is pending. See how the waves cut it before you make the plan.",
                "%(num)s accounts are pending. See how the waves cut them before you make the plan.",
                count_pending(session, supplier_of(session, code).id),
            ),
            button=_("Make this plan"),
            back=url_for("waves.show_all", supplier=code),
        )

    def find_effects(session: Session) -> Facts:
        order = _read(session, form, code)
        found = preview_plan(session, supplier_of(session, code), order)
        facts = [
            (_name_of(number, wave), _describe(wave, size))
            for number, (wave, size) in enumerate(zip(order.waves, found.sizes, strict=True), start=1)
        ]
        return (*facts, (_("In no wave"), found.unplanned))

    def perform(session: Session) -> Done:
        made = plan_waves(session, supplier_of(session, code), _read(session, form, code))
        return Done(_("The plan is made."), url_for("waves.show_plan", plan_id=made.id))

    return act(form, preview, perform, find_effects=find_effects, template="wave_plan.html")


def _read(session: Session, form: PlanForm, code: str) -> PlanOrder:
    """Return what the form asks for. It is read as the body of the interface is."""
    body, errors = load(WavePlanBodySchema(), _body_of(form, code))
    if errors:
        raise RequestFailedValidationError(errors=errors)
    return read_plan(body, now=clock.read_clock(session))


def _body_of(form: PlanForm, code: str) -> dict[str, Any]:
    window = {
        "start": _write_time(form.start.data),
        "end": _write_time(form.end.data),
        "time_zone": form.time_zone.data,
        "first_day": form.first_day.data and form.first_day.data.isoformat(),
        "days": form.days.data,
    }
    body = {
        "import_supplier": code,
        "operations_team_name": form.team.data,
        "name": form.name.data,
        "seed": form.seed.data,
        "continue_if_clean": bool(form.continue_if_clean.data),
        "lines_per_minute": form.lines_per_minute.data,
        "window": _given(window) if form.start.data or form.end.data else None,
        "brake": _given({"stop_after_errors": (form.stop_after_errors.data or "").strip()}),
        "waves": [_wave_of(row.form) for row in form.waves if row.form.takes.data],
    }
    return _given(body) | {"waves": body["waves"]}


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that somebody gave."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def _wave_of(row: WaveForm) -> dict[str, Any]:
    # A number may have spaces in it.
    lines = [line.strip() for line in (row.which.data or "").splitlines() if line.strip()]
    value: Any = {"rest": True, "accounts": lines}.get(row.takes.data)
    if value is None:
        text = "".join("".join(lines).split())
        value = int(text[:12]) if text.isdecimal() else text
    return _given({"name": row.name.data}) | {str(row.takes.data): value}


def _write_time(value: time | None) -> str | None:
    return f"{value:%H:%M}" if value is not None else None


def _name_of(number: int, wave: WaveOrder) -> str:
    return f"{number} · {wave.name}" if wave.name else _("Wave %(number)s", number=number)


def _describe(wave: WaveOrder, size: int) -> str:
    """Return how many accounts a wave gets, and when it may begin."""
    accounts = ngettext("%(num)s account", "%(num)s accounts", size)
    if wave.window is None:
        return _("%(accounts)s, started by hand", accounts=accounts)
    return _("%(accounts)s, at %(window)s", accounts=accounts, window=write_window(wave.window.to_dict()))
