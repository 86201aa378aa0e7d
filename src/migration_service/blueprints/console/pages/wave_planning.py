"""Planning of waves: the accounts of each wave and when it runs. A preview is shown first."""

from dataclasses import replace
from datetime import time
from typing import Any

import wtforms
from flask import Blueprint, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms.fields import DateField, TimeField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import InputRequired, Length, NumberRange, Optional

from migration_payloads.schemas.base import load
from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.acting import ActionForm, Done, Facts, Preview, act
from migration_service.blueprints.console.display import name_days, write_threshold, write_window
from migration_service.blueprints.console.faults import FormWithFaults
from migration_service.blueprints.console.languages import _, _l, ngettext, write_number
from migration_service.blueprints.console.ordering import team_choices
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.schemas.waves import WavePlanBodySchema
from migration_service.services.batches import clock
from migration_service.services.batches.error_thresholds import fit_to_wave
from migration_service.services.waves.orders import MAX_WAVES, PlanOrder, WaveOrder, read_plan
from migration_service.services.waves.plans import count_pending, plan_waves, preview_plan

blueprint = Blueprint("wave_planning", __name__, url_prefix="/suppliers/<code>/waves")

_MOST = 2**31 - 1
#: The initial rows of the form, and how many a click adds.
_ROWS = 4


class Conditions:
    """The window, the rate and the error threshold of a wave."""

    start = TimeField(_l("The window opens at"), validators=[Optional()])
    end = TimeField(
        _l("The window closes at"),
        validators=[Optional()],
        description=_l("If this is earlier, on the next day."),
    )
    time_zone = wtforms.StringField(_l("Time zone of the window"), description=_l("As Europe/Amsterdam."))
    first_day = DateField(
        _l("First day of the window"), validators=[Optional()], description=_l("Empty: today.")
    )
    days = wtforms.SelectMultipleField(
        _l("Days on which it opens"),
        choices=lambda: [*name_days().items()],
        description=_l("None chosen: every day."),
        render_kw={"size": 7},
    )
    stop_after_errors = wtforms.StringField(
        _l("Pause a wave after"),
        validators=[Length(max=20)],
        description=_l("A number of failed accounts (100), a percentage (5%), or off."),
    )
    lines_per_minute = wtforms.IntegerField(
        _l("Accounts per minute, at most"), validators=[Optional(), NumberRange(1, _MOST)]
    )

    def of_conditions(self) -> list[wtforms.Field]:
        """Return these fields."""
        return [
            *(self.start, self.end, self.time_zone, self.first_day, self.days),
            *(self.stop_after_errors, self.lines_per_minute),
        ]

    def conditions(self, *, time_zone: str | None = None) -> dict[str, Any]:
        """Return the given values under the interface's names. `time_zone` is the plan's."""
        window = {
            "start": _write_time(self.start.data),
            "end": _write_time(self.end.data),
            "time_zone": self.time_zone.data or time_zone,
            "first_day": self.first_day.data and self.first_day.data.isoformat(),
            "days": self.days.data,
        }
        conditions = {
            "lines_per_minute": self.lines_per_minute.data,
            "window": _given(window) if self.start.data or self.end.data else None,
            "brake": _given({"stop_after_errors": (self.stop_after_errors.data or "").strip()}),
        }
        return _given(conditions)


def if_clean_field() -> wtforms.SelectField:
    """Return the field for what follows a clean wave."""
    return wtforms.SelectField(
        _l("If it is clean"),
        default="",
        choices=[
            SelectChoice("", _l("as in the plan")),
            SelectChoice("continue", _l("the next one starts")),
            SelectChoice("hold", _l("a person decides")),
        ],
    )


#: Whether the next wave starts if this one is clean, by the choices of a form.
CONTINUES = {"continue": True, "hold": False}


class _WaveForm(Conditions, FormWithFaults):
    """The accounts of a wave and its own settings. The plan's values apply where it is empty."""

    class Meta:
        """The surrounding form has the token."""

        csrf = False

    name = wtforms.StringField(_l("Name"), validators=[Length(max=200)])
    takes = wtforms.SelectField(
        _l("Takes"),
        default="",
        choices=[
            SelectChoice("", _l("(no wave)")),
            SelectChoice("sample", _l("a random draw (first wave)")),
            SelectChoice("size", _l("the next by number")),
            SelectChoice("accounts", _l("these account numbers")),
            SelectChoice("rest", _l("everything left (last wave)")),
        ],
    )
    which = wtforms.TextAreaField(
        _l("How many, or the account numbers"),
        description=_l("Account numbers: one on each line."),
        render_kw={"rows": 1},
    )
    if_clean = if_clean_field()

    def in_order(self) -> list[wtforms.Field]:
        """Return the fields in the order of the page."""
        return [self.name, self.takes, self.which, self.if_clean, *self.of_conditions()]

    def find_field(self, item: ErrorItem) -> wtforms.Field | None:
        """Return the field of an error whose path starts at the wave."""
        last = (item.attr or "").split(".")[0]
        if last in ("size", "sample", "accounts"):
            return self.which
        return self.takes if last in ("", "rest") else super().find_field(item)

    def read(self, time_zone: str | None) -> dict[str, Any]:
        """Return the wave under the interface's names."""
        # A number may contain spaces.
        lines = [line.strip() for line in (self.which.data or "").splitlines() if line.strip()]
        value: Any = {"rest": True, "accounts": lines}.get(self.takes.data)
        if value is None:
            text = "".join("".join(lines).split())
            value = int(text[:12]) if text.isdecimal() else text
        held = CONTINUES.get(self.if_clean.data)
        given = _given({"name": self.name.data, "continue_if_clean": held})
        return given | self.conditions(time_zone=time_zone) | {str(self.takes.data): value}


class _PlanForm(Conditions, ActionForm):
    """A plan: its waves, and their common settings."""

    name = wtforms.StringField(_l("Name of the plan"), validators=[Length(max=200)])
    team = wtforms.SelectField(_l("Operations team"), validators=[InputRequired()])
    waves = wtforms.FieldList(
        wtforms.FormField(_WaveForm), _l("Wave"), min_entries=_ROWS, max_entries=MAX_WAVES
    )
    continue_if_clean = wtforms.BooleanField(_l("The wave after a clean one starts without approval"))
    seed = wtforms.IntegerField(
        _l("Seed of the random draw"),
        validators=[Optional(), NumberRange(0, _MOST)],
        description=_l("To draw the same accounts again. Empty: another draw each time."),
    )

    def in_order(self) -> list[wtforms.Field]:
        """Return the fields in the order of the page."""
        common = (self.continue_if_clean, *self.of_conditions(), self.seed)
        return [self.name, self.team, self.waves, *common]

    def rows(self) -> list[_WaveForm]:
        """Return the rows that describe a wave."""
        return [row.form for row in self.waves if row.form.takes.data]

    def find_field(self, item: ErrorItem) -> wtforms.Field | None:
        """Return the field of an error: the wave's, or the plan's if the value comes from there."""
        part, _dot, rest = (item.attr or "").partition(".")
        if part != "waves":
            return super().find_field(item)
        if not rest:
            return self.waves[0].form.takes
        number, _dot, path = rest.partition(".")
        found = self.rows()[int(number)].find_field(replace(item, attr=path))
        is_inherited = found is not None and found.short_name == "stop_after_errors" and not found.data
        return self.stop_after_errors if is_inherited else found

    def read(self, code: str) -> dict[str, Any]:
        """Return the plan as the body of the interface."""
        body = {
            "import_supplier": code,
            "operations_team_name": self.team.data,
            "name": self.name.data,
            "seed": self.seed.data,
            "continue_if_clean": bool(self.continue_if_clean.data),
        }
        waves = [row.read(self.time_zone.data) for row in self.rows()]
        return _given(body) | self.conditions() | {"waves": waves}


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def _write_time(value: time | None) -> str | None:
    return f"{value:%H:%M}" if value is not None else None


@blueprint.route("/new/", methods=["GET", "POST"])
def plan(code: str) -> Response:
    """Plan waves. The form shows how many accounts each wave gets before anything is stored."""
    form = _PlanForm(time_zone=resources().settings.console_time_zone)
    if "more" in request.form:
        for _row in range(min(_ROWS, MAX_WAVES - len(form.waves))):
            form.waves.append_entry()
    with resources().Session.begin() as session:
        supplier = supplier_of(session, code)
        form.team.choices = team_choices(session, supplier.organisation_id, supplier.id)

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


def _read(session: Session, form: _PlanForm, code: str) -> PlanOrder:
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
        words = write_threshold(fit_to_wave(wave.error_threshold, size).to_dict())
        parts.append(_("paused when %(words)s", words=words))
    if wave.lines_per_minute is not None:
        parts.append(_("at most %(n)s per minute", n=write_number(wave.lines_per_minute)))
    if wave is not order.waves[-1]:
        continues = order.continue_if_clean if wave.continue_if_clean is None else wave.continue_if_clean
        parts.append(_("then the next one if it is clean") if continues else _("then a person decides"))
    return "; ".join(parts)
