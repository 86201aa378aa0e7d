"""Windows: the hours of the day in which a wave may run, in a time zone.

A window whose end is before its start crosses midnight, and belongs to the day on which it starts. When the
clock changes, a time that occurs twice means the first occurrence, and a time that does not occur means the
moment of the change. So a window opens once a day, and a night is an hour shorter or longer. A window
entirely within a skipped hour does not open on that day.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

from migration_service.states import Weekday

#: The number of days searched for the next opening.
_HORIZON = 400
_WEEK = tuple(Weekday)


@dataclass(frozen=True, slots=True)
class Opening:
    """One opening of a window, from `opens_at` until just before `closes_at`, in UTC."""

    opens_at: datetime
    closes_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The times at which a wave may run."""

    start: time
    end: time
    #: A name in the IANA database, such as Europe/Amsterdam.
    time_zone: str
    #: The first day on which the window opens, in its time zone, and the days of the week.
    first_day: date
    days: tuple[Weekday, ...] = _WEEK

    def to_dict(self) -> dict[str, Any]:
        """Return the stored form of the window."""
        hours = {"start": f"{self.start:%H:%M}", "end": f"{self.end:%H:%M}", "time_zone": self.time_zone}
        return hours | {"first_day": self.first_day.isoformat(), "days": list(self.days)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Window":
        """Return the window with this stored form."""
        return cls(
            start=time.fromisoformat(values["start"]),
            end=time.fromisoformat(values["end"]),
            time_zone=values["time_zone"],
            first_day=date.fromisoformat(values["first_day"]),
            days=tuple(map(Weekday, values["days"])),
        )


def find_opening(window: Window, now: datetime) -> Opening | None:
    """Return the opening that contains `now`, or None if the window is closed."""
    opening = next_opening(window, now)
    return opening if opening and opening.opens_at <= now else None


def next_opening(window: Window, now: datetime) -> Opening | None:
    """Return the current or next opening, or None if there is none within a year."""
    openings = _openings(window, now.astimezone(ZoneInfo(window.time_zone)).date() - timedelta(days=1))
    return next((opening for opening in openings if now < opening.closes_at), None)


def _openings(window: Window, since: date) -> Iterator[Opening]:
    zone = ZoneInfo(window.time_zone)
    first = max(since, window.first_day)
    for day in (first + timedelta(days=offset) for offset in range(_HORIZON)):
        if _WEEK[day.weekday()] not in window.days:
            continue
        last_day = day if window.start < window.end else day + timedelta(days=1)
        opening = Opening(_moment(day, window.start, zone), _moment(last_day, window.end, zone))
        if opening.opens_at < opening.closes_at:
            yield opening


def _moment(day: date, at: time, zone: ZoneInfo) -> datetime:
    """Return the moment, in UTC, of a local time in the zone."""
    local = datetime.combine(day, at, zone)  # fold=0 is the first of two occurrences
    moment = local.astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
        return moment
    # A local time that does not occur has two interpretations, with the offsets before and after the change.
    # The moment of the change, a whole minute, is between them.
    before = local.replace(fold=1).astimezone(UTC)
    offset = before.astimezone(zone).utcoffset()
    minutes = (before + timedelta(minutes=n) for n in count())
    return next(it for it in minutes if it.astimezone(zone).utcoffset() != offset)
