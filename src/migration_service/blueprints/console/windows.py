"""Windows of waves, in words."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from babel.dates import format_date

from migration_service.blueprints.console.languages import _, _l, current_locale
from migration_service.states import Weekday

#: The names of the days of the week.
DAYS: Mapping[Weekday, Any] = {
    Weekday.MONDAY: _l("Monday"),
    Weekday.TUESDAY: _l("Tuesday"),
    Weekday.WEDNESDAY: _l("Wednesday"),
    Weekday.THURSDAY: _l("Thursday"),
    Weekday.FRIDAY: _l("Friday"),
    Weekday.SATURDAY: _l("Saturday"),
    Weekday.SUNDAY: _l("Sunday"),
}


def write_window(window: Mapping[str, Any]) -> str:
    """Return a stored window as text: its hours, zone, first day, and days unless it opens every day."""
    first_day = format_date(date.fromisoformat(window["first_day"]), "d MMM y", locale=current_locale())
    text = _(
        "%(start)s to %(end)s %(zone)s, from %(day)s",
        start=window["start"],
        end=window["end"],
        zone=window["time_zone"],
        day=first_day,
    )
    days = [str(DAYS[Weekday(day)]) for day in window["days"]]
    return text if len(days) == len(DAYS) else f"{text}: {', '.join(days)}"
