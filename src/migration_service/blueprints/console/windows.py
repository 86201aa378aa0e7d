"""Windows of waves, in words."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from babel.dates import format_date

from migration_service.blueprints.console.languages import _, current_locale
from migration_service.states import Weekday


def name_days() -> dict[str, str]:
    """Return the names of the days of the week."""
    names = current_locale().days["stand-alone"]["wide"]
    return {day: names[place] for place, day in enumerate(Weekday)}


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
    names = name_days()
    days = [names[day] for day in window["days"]]
    return text if len(days) == len(names) else f"{text}: {', '.join(days)}"
