"""Corrections of findings about periods."""

from datetime import timedelta
from typing import Any

from marshmallow import missing

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps, day, objects
from migration_payloads.errors import Confidence

#: The start that belongs to the name of an end.
_STARTS = {"end_date": "start_date", "end_at": "start_at", "bill_period_to_date": "bill_period_from_date"}


#: Dates that databases and forms write if a date is not known.
PLACEHOLDERS = frozenset(
    {"0001-01-01", "1753-01-01", "1800-01-01", "1899-12-30", "1899-12-31", "1900-01-01"}
    | {"2999-12-31", "9999-01-01", "9999-12-31"}
)
#: Ends that stand for none.
_OPEN_ENDS = frozenset({"2099-12-31", "2999-12-31", "9999-12-31"})


@corrects("gaps_or_overlaps_in_periods")
def until_the_next(place: Place) -> Steps:
    """End a period when the next one starts.

    It is likely if the period has no end, or ends on the day before, and a guess otherwise.
    """
    following = _next_start(place)
    if not following:
        return []
    is_missing = place.value is missing or place.value is None
    last, next_ = day(str(place.value)[:10]), day(following[:10])
    is_day_before = last is not None and next_ is not None and next_ - last == timedelta(days=1)
    sure = Confidence.LIKELY if is_missing or is_day_before else Confidence.GUESS
    return [place.replace(following, sure)]


@corrects("latest_period_not_open_ended")
def open_end(place: Place) -> Steps:
    """Leave out the end of the last period. It is a guess unless the end stands for none, as 9999-12-31."""
    return [place.remove(Confidence.LIKELY if place.value in _OPEN_ENDS else Confidence.GUESS)]


@corrects("placeholder_date")
def no_placeholder(place: Place) -> Steps:
    """Leave out a date that stands for none, if the field is not required."""
    if place.field is None or place.field.required:
        return []
    settles = place.name == "last_settlement_closing_date"
    if settles and objects(place.parent.get("historical_statement_transactions")):
        return []  # historical transactions need it
    return [place.remove(Confidence.LIKELY if str(place.value)[:10] in PLACEHOLDERS else Confidence.GUESS)]


@corrects("period_without_content")
def no_empty_period(place: Place) -> Steps:
    """Leave out a period that has nothing but its dates."""
    return [place.remove(Confidence.GUESS)]


@corrects("start_date_later_than_end_date")
def end_after_start(place: Place) -> Steps:
    """End a dated period when the next one starts, or not at all. Exchange start and end of other periods."""
    end, start = str(place.name), _STARTS[str(place.name)]
    if "meter_points" not in place.path:
        earlier, later = place.value, place.parent[start]
        path = (*place.path[:-1], start)
        return [place.replace(earlier, Confidence.GUESS, path), place.replace(later, Confidence.GUESS)]
    following = _next_start(place)
    if following is None:
        return [place.remove(Confidence.GUESS)] if end in place.parent else []
    return [place.replace(following, Confidence.GUESS)]


def _next_start(place: Place) -> str | None:
    """Return the start of the next period of the same kind and direction, or None if none follows."""
    field = _STARTS[str(place.name)]
    period: dict[str, Any] = place.parent
    starts = [
        it[field]
        for it in objects(place.above(2))
        if it.get("direction") == period.get("direction") and isinstance(it.get(field), str)
    ]
    return min((it for it in starts if it > period[field]), default=None)


@corrects("historical_transactions_require_last_settlement_closing_date")
def latest_historical_date(place: Place) -> Steps:
    """Close the last settlement on the day of the latest historical transaction."""
    historical = objects(place.parent.get("historical_statement_transactions"))
    open_ones = objects(place.parent.get("transactions_in_open_settlement_period"))
    days = [it.get("transaction_date") for it in historical]
    if not all(isinstance(it, str) for it in days):
        return []
    latest = max(map(str, days))
    issued = place.parent.get("last_settlement_issue_date", latest)
    is_before = all(str(it.get("transaction_date", "")) > latest for it in open_ones)
    return [place.replace(latest, Confidence.GUESS)] if is_before and issued >= latest else []
