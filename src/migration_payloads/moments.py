"""The format of times: `YYYY-MM-DDTHH:MM:SSZ`, in UTC (section 2.1), and today's date in a time zone."""

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

#: The default time zone of a supplier.
DEFAULT_TIME_ZONE = "Europe/Amsterdam"


def is_time_zone(text: str) -> bool:
    """Return whether there is a time zone with this name."""
    try:
        ZoneInfo(text)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False
    return True


def today_in(time_zone: str) -> date:
    """Return today's date in a time zone."""
    return datetime.now(ZoneInfo(time_zone)).date()


def write_moment(moment: datetime) -> str:
    """Return a time with a zone as text, without fractions of a second."""
    # Not strftime, which writes the year 800 with three digits.
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def show_moment(moment: datetime) -> str:
    """Return a time with a zone as people read it, such as `2026-03-01 22:00:00 UTC`."""
    return f"{write_moment(moment)[:-1].replace('T', ' ')} UTC"


def sql_moment(column: str) -> str:
    """Return the SQL expression that writes a column of times in this format."""
    return f"""to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""


def write_moments(value: Any) -> Any:
    """Return a JSON value in which each time is text.

    A time without a zone is left unchanged: `start_at` and `end_at` have none (section 2.3).
    """
    match value:
        case dict():
            return {name: write_moments(below) for name, below in value.items()}
        case list() | tuple():
            return [write_moments(below) for below in value]
        case datetime() if value.tzinfo is not None:
            return write_moment(value)
    return value
