"""Days and months as small numbers with ready-made ISO texts, because formatting dates is slow."""

from datetime import date, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

#: How many years the calendar goes back.
_YEARS: Final = 24
#: Complete months before the current one: 36 of history, and up to 12 that are not settled yet.
_MONTHS: Final = 49

# The share of a year's use in each month, January first.
_ELECTRICITY_SHARES = (0.101, 0.089, 0.088, 0.079, 0.075, 0.070, 0.071, 0.073, 0.077, 0.087, 0.092, 0.098)
_GAS_SHARES = (0.182, 0.158, 0.132, 0.083, 0.043, 0.022, 0.018, 0.018, 0.029, 0.066, 0.110, 0.139)
_SUN_SHARES = (0.024, 0.044, 0.080, 0.115, 0.137, 0.139, 0.137, 0.118, 0.090, 0.060, 0.034, 0.022)


class Month(NamedTuple):
    """A calendar month: its first and last day (numbers), and its share of a year's use."""

    first: int
    last: int
    electricity: float
    gas: float
    sun: float


class Calendar(NamedTuple):
    """Days are numbers: an index into `iso`, which ends with `today`.

    `months` ends with the month of `today`, so that `months[-2]` is the last complete one.
    """

    today: int
    year: int
    iso: tuple[str, ...]
    months: tuple[Month, ...]


class Supply(NamedTuple):
    """The start of an account's supply and the end of its billing. Days are numbers of the calendar."""

    calendar: Calendar
    number: str
    start: int
    history_start: int
    billed_to: int


@lru_cache(maxsize=8)
def make_calendar(today: date) -> Calendar:
    """Return the calendar that ends on `today`. Raise ValueError for a day before 2000 or after 2199."""
    if not 2000 <= today.year < 2200:
        raise ValueError(f"A sample book cannot be as it is on {today}; choose a day from 2000 to 2199.")
    count = _YEARS * 366
    start = today - timedelta(days=count)
    iso = tuple((start + timedelta(days=day)).isoformat() for day in range(count + 1))
    months: list[Month] = []
    first = today.replace(day=1)
    while len(months) <= _MONTHS:
        following = (first + timedelta(days=32)).replace(day=1)
        number = first.month - 1
        months.append(
            Month(
                (first - start).days,
                (following - start).days - 1,
                _ELECTRICITY_SHARES[number],
                _GAS_SHARES[number],
                _SUN_SHARES[number],
            )
        )
        first = (first - timedelta(days=1)).replace(day=1)
    return Calendar(count, today.year, iso, tuple(reversed(months)))
