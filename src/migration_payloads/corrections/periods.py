"""Corrections of findings about periods."""

from typing import Any

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps, objects
from migration_payloads.errors import Confidence

#: The start that belongs to the name of an end.
_STARTS = {"end_date": "start_date", "end_at": "start_at", "bill_period_to_date": "bill_period_from_date"}


@corrects("gaps_or_overlaps_in_periods")
def until_the_next(place: Place) -> Steps:
    """End a period when the next one starts."""
    following = _next_start(place)
    return [place.replace(following, Confidence.LIKELY)] if following else []


@corrects("latest_period_not_open_ended")
def open_end(place: Place) -> Steps:
    """Leave out the end of the last period."""
    return [place.remove(Confidence.LIKELY)]


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
