"""Making a plan: what it may ask for, which accounts are in which wave, and when windows open."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import BatchLine, WavePlan
from migration_service.services.waves.orders import PlanOrder, WaveOrder
from migration_service.services.waves.plans import plan_waves
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.windows import Opening, Window, find_opening, next_opening
from migration_service.states import Weekday
from support.factories import Customer
from support.rows import find_supplier
from unit.services.undo.undo_rows import add_pending


def _plan(session: Session, customer: Customer, *waves: WaveOrder, **more: Any) -> WavePlan:
    given: dict[str, Any] = {"continue_if_clean": False, "seed": 7} | more
    given = {"operations_team_name": customer.operations_team} | given
    return plan_waves(session, find_supplier(session, customer), PlanOrder(waves=waves, **given))


def _accounts(session: Session, plan: WavePlan) -> list[list[str]]:
    """Return the accounts of each wave, in the order of its lines."""
    numbers = select(BatchLine.external_account_number).order_by(BatchLine.line_number)
    return [
        [str(it) for it in session.scalars(numbers.where(BatchLine.batch_id == wave.batch_id))]
        for wave in list_waves(session, plan.id)
    ]


def _payload(*kinds: str) -> Any:
    points = [{"supply_type": kind, "agreements": [{}]} for kind in kinds]
    return {"supply_addresses": [{"meter_points": points}], "statements": []}


def test_a_draw_takes_one_of_each_stratum_and_then_its_share(session: Session, customer: Customer) -> None:
    """Of 12 + 6 + 2 accounts, eight are one of each, and then those whose share is due."""
    add_pending(session, customer, *(f"G{n:02}" for n in range(12)), payload=_payload("GAS"))
    add_pending(session, customer, *(f"P{n:02}" for n in range(6)), payload=_payload("ELECTRICITY"))
    add_pending(session, customer, *(f"R{n:02}" for n in range(2)), payload=_payload("GAS", "ELECTRICITY"))
    drawn = {}
    for size in (2, 8, 20):
        with session.begin_nested() as undone:
            plan = _plan(session, customer, WaveOrder(sample=size))
            ((*numbers,),) = _accounts(session, plan)
            (wave,) = list_waves(session, plan.id)
            drawn[size] = Counter(number[0] for number in numbers)
            strata = {it["stratum"]: (it["pending"], it["drawn"]) for it in wave.strata or ()}
            undone.rollback()
    assert drawn == {2: {"G": 1, "P": 1}, 8: {"G": 5, "P": 2, "R": 1}, 20: {"G": 12, "P": 6, "R": 2}}
    ending = "with agreements, without statements"
    assert [*strata.items()] == [
        (f"GAS, 1 meter point, {ending}", (12, 12)),
        (f"ELECTRICITY, 1 meter point, {ending}", (6, 6)),
        (f"ELECTRICITY and GAS, 2 meter points, {ending}", (2, 2)),
    ]


def test_within_a_stratum_the_seed_decides(session: Session, customer: Customer) -> None:
    add_pending(session, customer, *(f"N{n:02}" for n in range(20)))
    drawn = []
    for seed in (7, 7, 8):
        with session.begin_nested() as undone:
            drawn.append(_accounts(session, _plan(session, customer, WaveOrder(sample=4), seed=seed)))
            undone.rollback()
    assert drawn[0] == drawn[1] != drawn[2]


def _window(start: str, end: str, *, zone: str = "Europe/Amsterdam", first: str = "2026-01-01") -> Window:
    return Window(
        start=time.fromisoformat(start),
        end=time.fromisoformat(end),
        time_zone=zone,
        first_day=date.fromisoformat(first),
    )


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _opening(opens_at: str, closes_at: str) -> Opening:
    return Opening(_at(opens_at), _at(closes_at))


@pytest.mark.parametrize(
    ("now", "expected", "is_open"),
    [
        ("2026-02-10T20:59:59", ("2026-02-10T21:00", "2026-02-11T05:00"), False),
        ("2026-02-10T21:00:00", ("2026-02-10T21:00", "2026-02-11T05:00"), True),
        ("2026-02-11T00:00:00", ("2026-02-10T21:00", "2026-02-11T05:00"), True),
        ("2026-02-11T04:59:59", ("2026-02-10T21:00", "2026-02-11T05:00"), True),
        ("2026-02-11T05:00:00", ("2026-02-11T21:00", "2026-02-12T05:00"), False),
        # Summer time.
        ("2026-07-10T20:30:00", ("2026-07-10T20:00", "2026-07-11T04:00"), True),
    ],
)
def test_a_night_goes_over_midnight(now: str, expected: tuple[str, str], *, is_open: bool) -> None:
    window = _window("22:00", "06:00")
    assert next_opening(window, _at(now)) == _opening(*expected)
    assert find_opening(window, _at(now)) == (_opening(*expected) if is_open else None)


@pytest.mark.parametrize(
    ("start", "end", "day", "opens_at", "closes_at"),
    [
        # The clock goes from 02:00 to 03:00 on 29 March 2026, at 01:00 UTC.
        ("22:00", "06:00", "2026-03-28T12:00", "2026-03-28T21:00", "2026-03-29T04:00"),
        ("02:30", "05:00", "2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T03:00"),
        ("00:00", "02:30", "2026-03-28T23:00", "2026-03-28T23:00", "2026-03-29T01:00"),
        ("02:10", "02:50", "2026-03-28T12:00", "2026-03-30T00:10", "2026-03-30T00:50"),
        # From 03:00 to 02:00 on 25 October 2026, at 01:00 UTC.
        ("22:00", "06:00", "2026-10-24T12:00", "2026-10-24T20:00", "2026-10-25T05:00"),
        ("02:30", "05:00", "2026-10-24T12:00", "2026-10-25T00:30", "2026-10-25T04:00"),
        ("00:00", "02:30", "2026-10-24T22:00", "2026-10-24T22:00", "2026-10-25T00:30"),
        ("02:10", "02:50", "2026-10-24T12:00", "2026-10-25T00:10", "2026-10-25T00:50"),
    ],
)
def test_the_days_on_which_the_clock_changes(
    start: str, end: str, day: str, opens_at: str, closes_at: str
) -> None:
    assert next_opening(_window(start, end), _at(day)) == _opening(opens_at, closes_at)


def test_a_window_that_occurs_twice_by_the_clock_opens_once() -> None:
    window = _window("02:10", "02:50")
    assert find_opening(window, _at("2026-10-25T00:30"))
    assert find_opening(window, _at("2026-10-25T01:30")) is None, "the clock shows 02:30 for the second time"


@pytest.mark.parametrize("zone", ["Europe/Amsterdam", "America/New_York", "Pacific/Auckland", "UTC"])
@pytest.mark.parametrize(("start", "end"), [("22:00", "06:00"), ("01:30", "03:30"), ("09:00", "17:00")])
def test_over_a_year_every_day_has_one_opening_and_none_overlap(zone: str, start: str, end: str) -> None:
    window = _window(start, end, zone=zone)
    now, openings = _at("2026-01-05T00:00"), []
    while now < _at("2027-01-05T00:00"):
        opening = next_opening(window, now)
        assert opening
        openings.append(opening)
        now = opening.closes_at
    days = [opening.opens_at for opening in openings]
    assert 364 <= len(openings) <= 366
    for one, other in pairwise(openings):
        assert one.closes_at <= other.opens_at
    gaps = {other - one for one, other in pairwise(days)}
    assert gaps <= {timedelta(hours=hours / 2) for hours in range(46, 51)}


def test_a_window_that_lies_in_the_skipped_hour_of_its_only_day_opens_a_week_later_or_not_within_a_year() -> (
    None
):
    skipped = replace(_window("02:10", "02:50"), days=(Weekday.SUNDAY,))
    assert next_opening(skipped, _at("2026-03-28T12:00")) == _opening("2026-04-05T00:10", "2026-04-05T00:50")
    assert next_opening(replace(skipped, days=()), _at("2026-03-28T12:00")) is None


def test_the_first_day_and_the_days_of_the_week() -> None:
    whole = _window("22:00", "02:00", first="2026-02-11")
    weekend = replace(whole, days=(Weekday.SATURDAY,))
    assert next_opening(whole, _at("2026-02-01T00:00")) == _opening("2026-02-11T21:00", "2026-02-12T01:00")
    assert next_opening(weekend, _at("2026-02-11T21:30")) == _opening("2026-02-14T21:00", "2026-02-15T01:00")
    assert Window.from_dict(weekend.to_dict()) == weekend
    never = Window(start=time(1), end=time(2), time_zone="UTC", first_day=date(2030, 1, 1))
    assert next_opening(never, _at("2026-01-01T00:00")) == _opening("2030-01-01T01:00", "2030-01-01T02:00")
