"""Rules for dates that stand for no day, and for objects that have nothing but a date."""

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

from migration_payloads.rules.account import CheckedAccount, Path
from migration_payloads.rules.rule import Fault, Severity, rule
from migration_payloads.schemas import fields
from migration_payloads.schemas.supply import MeterPointSchema

#: The first day that may be meant. Systems write the day before, or one of 1899, 1800, 1753 or 1, for none.
FIRST_DAY = date(1900, 1, 2)

#: The first day that is too late to be meant. Systems write 2999-12-31 or 9999-12-31 for no end, or none.
NO_DAY = date(2900, 1, 1)

#: The optional values of a period besides its dates, by its kind. A kind that has none is not checked.
_SAYS: dict[str | int, tuple[str, ...]] = {
    kind: tuple(
        name
        for name, field in periods.schema.fields.items()
        if not field.required and not isinstance(field, fields.Day | fields.LocalMoment)
    )
    for kind, periods in MeterPointSchema().fields.items()
    if isinstance(periods, fields.Objects)
}


@rule(
    Severity.WARNING,
    remedy="Correct the date. If it stands for none, leave it out where the field is not required.",
)
def placeholder_date(account: CheckedAccount) -> Iterator[Fault]:
    """A date is 1900-01-01 or before, or after 2899, as systems write it if they have none: 9999-12-31.

    The times of a note are checked, too.
    """
    for path, found in () if account.has_usual_dates else _dates(account.data, ()):
        if is_placeholder(found):
            yield path, describe_placeholder(found)


def _dates(within: Any, above: Path) -> Iterator[tuple[Path, date]]:
    """Yield the dates and times in an object or a list, but birthdays, which have a rule of their own."""
    for name, value in within.items() if isinstance(within, dict) else enumerate(within):
        match value:
            case dict() | list():
                yield from _dates(value, (*above, name))
            case date() if name != "date_of_birth":
                yield (*above, name), value


def is_placeholder(found: date) -> bool:
    """Return whether a date, or a time, is so early or so late that it stands for none."""
    return not FIRST_DAY <= (found.date() if isinstance(found, datetime) else found) < NO_DAY


def describe_placeholder(found: date) -> str:
    """Return the sentence about a date, or a time, that stands for none."""
    return f"{found.isoformat()[:10]} stands for no day: correct it, or leave it out where it may be absent."


@rule(Severity.WARNING, remedy="Send what is valid in the period, or leave the period out.")
def period_without_content(account: CheckedAccount) -> Iterator[Fault]:
    """A period of a meter point has nothing but its dates, such as an estimated volume without any energy."""
    for series, _, _, periods in account.period_series:
        names = _SAYS[series[-1]]
        if not names:
            continue
        for i, period in periods:
            # The first is nearly always there, and to ask for it alone costs less.
            if period.get(names[0]) is not None or any(period.get(name) is not None for name in names):
                continue
            path = (*series, i)
            if not account.is_touched(*path):
                yield (
                    path,
                    f"The period has nothing but its dates: send {' or '.join(names[:2])}, or leave it out.",
                )
