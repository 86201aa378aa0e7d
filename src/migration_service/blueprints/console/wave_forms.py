"""The form of a wave plan, and its conversion to the body of the interface."""

from dataclasses import replace
from datetime import time
from typing import Any

from wtforms import (
    BooleanField,
    Field,
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

from migration_service.blueprints.console.acting import ActionForm
from migration_service.blueprints.console.faults import FormWithFaults
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.windows import DAYS
from migration_service.errors import ErrorItem
from migration_service.services.waves.orders import MAX_WAVES

_MOST = 2**31 - 1
#: The initial rows of the form, and how many a click adds.
ROWS = 4


class _Conditions:
    """The window, the rate and the error threshold of a wave."""

    start = TimeField(_l("The window opens at"), validators=[Optional()])
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
        description=_l("A number of failed accounts (100), a percentage (5%), or off."),
    )
    lines_per_minute = IntegerField(
        _l("Accounts per minute, at most"), validators=[Optional(), NumberRange(1, _MOST)]
    )

    def of_conditions(self) -> list[Field]:
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


class WaveForm(_Conditions, FormWithFaults):
    """The accounts of a wave and its own settings. The plan's values apply where it is empty."""

    class Meta:
        """The surrounding form has the token."""

        csrf = False

    name = StringField(_l("Name"), validators=[Length(max=200)])
    takes = SelectField(
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
    which = TextAreaField(
        _l("How many, or the account numbers"),
        description=_l("Account numbers: one on each line."),
        render_kw={"rows": 1},
    )
    if_clean = SelectField(
        _l("If it is clean"),
        default="",
        choices=[
            SelectChoice("", _l("as in the plan")),
            SelectChoice("continue", _l("the next one starts")),
            SelectChoice("hold", _l("a person decides")),
        ],
    )

    def in_order(self) -> list[Field]:
        """Return the fields in the order of the page."""
        return [self.name, self.takes, self.which, self.if_clean, *self.of_conditions()]

    def find_field(self, item: ErrorItem) -> Field | None:
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
        held = {"continue": True, "hold": False}.get(self.if_clean.data)
        given = _given({"name": self.name.data, "continue_if_clean": held})
        return given | self.conditions(time_zone=time_zone) | {str(self.takes.data): value}


class PlanForm(_Conditions, ActionForm):
    """A plan: its waves, and their common settings."""

    name = StringField(_l("Name of the plan"), validators=[Length(max=200)])
    team = SelectField(_l("Operations team"), validators=[InputRequired()])
    waves = FieldList(FormField(WaveForm), _l("Wave"), min_entries=ROWS, max_entries=MAX_WAVES)
    continue_if_clean = BooleanField(_l("The wave after a clean one starts without approval"))
    seed = IntegerField(
        _l("Seed of the random draw"),
        validators=[Optional(), NumberRange(0, _MOST)],
        description=_l("To draw the same accounts again. Empty: another draw each time."),
    )

    def in_order(self) -> list[Field]:
        """Return the fields in the order of the page."""
        common = (self.continue_if_clean, *self.of_conditions(), self.seed)
        return [self.name, self.team, self.waves, *common]

    def rows(self) -> list[WaveForm]:
        """Return the rows that describe a wave."""
        return [row.form for row in self.waves if row.form.takes.data]

    def find_field(self, item: ErrorItem) -> Field | None:
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
