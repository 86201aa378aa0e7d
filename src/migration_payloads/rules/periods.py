"""Rules for periods with a start and an end.

The dated periods of a meter point end when the next one starts, so their end is exclusive. The periods of
line items and statements name their last day, so a period of one day starts and ends on it.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from migration_payloads.rules.account import CheckedAccount, Item
from migration_payloads.rules.gs1 import is_gs1_number, is_nothing
from migration_payloads.rules.rule import Fault, Severity, find_repeated, rule
from migration_payloads.schemas.messages import shown


@rule(Severity.ERROR, remedy="Correct one of the two dates: the end comes after the start.")
def start_date_later_than_end_date(account: CheckedAccount) -> Iterator[Fault]:
    """A period ends before it starts, or a dated period of a meter point ends when it starts."""
    for path, start_field, end_field, periods in account.period_series:
        if not end_field:
            continue
        for i, period in periods:
            start, end = period.get(start_field), period.get(end_field)
            if start and end and start >= end:
                yield (
                    (*path, i, end_field),
                    f"The period ends on {end.isoformat()}, not after its start, {start.isoformat()}.",
                )
    yield from _find_reversed_line_items(account)
    for path, statement in account.statements:
        start, end = statement.get("bill_period_from_date"), statement.get("bill_period_to_date")
        if start and end and start > end:
            yield (
                (*path, "bill_period_to_date"),
                f"The bill period ends on {end}, before it starts on {start}.",
            )


def _find_reversed_line_items(account: CheckedAccount) -> Iterator[Fault]:
    try:  # there is nearly always no finding, and this is faster than a loop
        if True not in [item["start_date"] > item["end_date"] for item in account.line_items]:
            return
    except KeyError:
        pass
    for path, _, line_items in account.itemised:
        for i, item in enumerate(line_items):
            start, end = item.get("start_date"), item.get("end_date")
            if start and end and start > end:
                yield (
                    (*path, "line_items", i, "end_date"),
                    f"The line item ends on {end}, before it starts on {start}.",
                )


@rule(Severity.ERROR, remedy="Send one period for each start date, the one that is valid.")
def duplicate_period_start(account: CheckedAccount) -> Iterator[Fault]:
    """Two periods of one kind start at the same time. Estimated volumes are compared within a direction."""
    for path, start_field, _, periods in account.period_series:
        if len(periods) < 2:
            continue
        for i, start, first in find_repeated(periods, start_field):
            yield (
                (*path, i, start_field),
                f"The period starts on {start.isoformat()}, as {path[-1]}.{first} does.",
            )


@rule(Severity.WARNING, remedy="End each period when the next one starts.")
def gaps_or_overlaps_in_periods(account: CheckedAccount) -> Iterator[Fault]:
    """The periods of one kind do not follow one another: one ends before or after the next one starts."""
    for path, start_field, end_field, periods in account.period_series:
        if not end_field or len(periods) < 2:
            continue
        if not all(start_field in period for _, period in periods):
            continue
        ordered = sorted(periods, key=lambda pair: pair[1][start_field])
        for (i, period), (_, following) in pairwise(ordered):
            end, next_start = period.get(end_field), following[start_field]
            if end == next_start or period[start_field] == next_start:
                continue
            fault = "has no end" if end is None else f"ends on {end.isoformat()}"
            yield (
                (*path, i, end_field),
                f"The period {fault}, but the next one starts on {next_start.isoformat()}: "
                "a period ends when the next one starts.",
            )


@rule(Severity.WARNING, remedy="Leave out the end_date of the last period, or send the one that follows it.")
def latest_period_not_open_ended(account: CheckedAccount) -> Iterator[Fault]:
    """The last billing configuration period of a meter point has an end, and nothing follows it."""
    for path, meter_point in account.meter_points:
        periods: list[Item] | None = meter_point.get("billing_configuration_periods")
        if not periods or not any("end_date" in period for period in periods):
            continue
        if not all("start_date" in period for period in periods):
            continue
        latest = max(range(len(periods)), key=lambda i: periods[i]["start_date"])
        if end := periods[latest].get("end_date"):
            yield (
                (*path, "billing_configuration_periods", latest, "end_date"),
                f"The last period ends on {end}, and none follows: leave its end_date out.",
            )


@rule(Severity.WARNING, remedy="Correct the code: the 13-digit GLN of the grid operator.")
def invalid_grid_operator_code(account: CheckedAccount) -> Iterator[Fault]:
    """A grid operator code is not a 13-digit number with the right GS1 check digit, or has only zeros."""
    kind = "energy_meter_point_grid_operator_effective_periods"
    return _find_wrong_numbers(account, kind, "grid_operator_code")


@rule(Severity.WARNING, remedy="Correct the code: 13 digits, of which the last is the GS1 check digit.")
def invalid_cap_tar_code(account: CheckedAccount) -> Iterator[Fault]:
    """A capacity tariff code is not a 13-digit number with the right GS1 check digit, or has only zeros."""
    return _find_wrong_numbers(account, "energy_meter_point_configuration_periods", "cap_tar_code")


@lru_cache
def _is_known_number(code: str) -> bool:
    """Return whether a code is right. There are only a few of them, in all accounts."""
    return is_gs1_number(code, 13)


def _find_wrong_numbers(account: CheckedAccount, kind: str, field: str) -> Iterator[Fault]:
    for path, meter_point in account.meter_points:
        for i, period in enumerate(meter_point.get(kind, ())):
            code = period.get(field)
            if code and not _is_known_number(code):
                is_not = "is not a number of 13 digits with the right GS1 check digit"
                why = "has only zeros" if is_nothing(code) else is_not
                yield (*path, kind, i, field), f"{shown(code)} {why}."
