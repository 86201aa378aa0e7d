"""Making a plan: what it may ask for, which accounts are in which wave, and when windows open."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.models import ApiKey, BatchLine, WavePlan
from migration_service.services.batches.error_thresholds import IMPORT_THRESHOLD, ErrorThreshold
from migration_service.services.waves.orders import PlanOrder, WaveOrder, read_plan
from migration_service.services.waves.plans import plan_waves, preview_plan
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.windows import Opening, Window, find_opening, next_opening
from migration_service.states import ImportState, Weekday
from support.audit import list_entries
from support.factories import Customer
from support.rows import find_supplier
from unit.services.undo.undo_rows import add_pending
from unit.services.waves.wave_rows import EVENING, acts, batch_of

_NIGHT = {"start": "22:00", "end": "06:00", "time_zone": "Pacific/Auckland"}


def _read(*waves: dict[str, Any], **more: Any) -> PlanOrder:
    body = {"operations_team_name": "Team", "continue_if_clean": False, "waves": waves} | more
    return read_plan(body, now=EVENING, api_key_id=7)


def test_a_plan_is_read() -> None:
    brake = {"stop_after_errors": "5"}
    waves: list[dict[str, Any]] = [
        {"sample": 3, "name": "Pilot", "window": _NIGHT | {"days": ["mon"]}, "brake": brake},
        {"size": 4, "lines_per_minute": 60, "continue_if_clean": False},
        {"accounts": ["a"], "window": _NIGHT | {"first_day": date(2026, 5, 1)}},
        {"rest": True},
    ]
    day = {"start": "06:00", "end": "22:00", "time_zone": "UTC"}
    plan = _read(*waves, window=day, lines_per_minute=30, name="Spring", seed=0, continue_if_clean=True)
    night: dict[str, Any] = {"start": time(22), "end": time(6), "time_zone": "Pacific/Auckland"}
    # It is tomorrow already in Auckland.
    mondays = Window(**night, first_day=date(2026, 3, 3), days=(Weekday.MONDAY,))
    usual = Window(start=time(6), end=time(22), time_zone="UTC", first_day=date(2026, 3, 2))
    assert plan == PlanOrder(
        operations_team_name="Team",
        name="Spring",
        seed=0,
        continue_if_clean=True,
        api_key_id=7,
        waves=[
            WaveOrder(
                sample=3,
                name="Pilot",
                window=mondays,
                error_threshold=ErrorThreshold(stop_after_errors="5"),
                lines_per_minute=30,
            ),
            WaveOrder(size=4, lines_per_minute=60, window=usual, continue_if_clean=False),
            WaveOrder(
                accounts=["a"], lines_per_minute=30, window=Window(**night, first_day=date(2026, 5, 1))
            ),
            WaveOrder(lines_per_minute=30, window=usual),
        ],
    )


def test_a_fault_of_all_waves_is_named_once() -> None:
    with pytest.raises(errors.RequestFailedValidationError) as raised:
        _read({"size": 1}, {"size": 1}, window=_NIGHT | {"end": "22:00", "time_zone": "Mars"})
    assert [(it.code, it.attr) for it in raised.value.errors] == [
        ("invalid", "window.end"),
        ("invalid_choice", "window.time_zone"),
    ]


REST = WaveOrder()


def _order(customer: Customer, *waves: WaveOrder, **more: Any) -> PlanOrder:
    given: dict[str, Any] = {"continue_if_clean": False, "seed": 7} | more
    team = given.pop("operations_team_name", customer.operations_team)
    return PlanOrder(waves=waves, operations_team_name=team, **given)


def _plan(session: Session, customer: Customer, *waves: WaveOrder, **more: Any) -> WavePlan:
    return plan_waves(session, find_supplier(session, customer), _order(customer, *waves, **more))


def _preview(session: Session, customer: Customer, *waves: WaveOrder) -> tuple[Sequence[int], int]:
    found = preview_plan(session, find_supplier(session, customer), _order(customer, *waves))
    return found.sizes, found.unplanned


def _accounts(session: Session, plan: WavePlan) -> list[list[str]]:
    """Return the accounts of each wave, in the order of its lines."""
    numbers = select(BatchLine.external_account_number).order_by(BatchLine.line_number)
    return [
        [str(it) for it in session.scalars(numbers.where(BatchLine.batch_id == wave.batch_id))]
        for wave in list_waves(session, plan.id)
    ]


@pytest.fixture
def letters(session: Session, customer: Customer, other: Customer) -> str:
    """Pending accounts of the customer, in an order of their own, and accounts that are not to be planned."""
    add_pending(session, other, *"axyz")
    add_pending(session, customer, "skipped", state=ImportState.SKIPPED)
    add_pending(session, customer, *"hbgadfce")
    return "abcdefgh"


def test_each_account_is_in_one_wave(session: Session, customer: Customer, letters: str) -> None:
    waves = (WaveOrder(sample=2), WaveOrder(accounts=["f", "b"]), WaveOrder(size=3))
    assert _preview(session, customer, *waves) == ([2, 2, 3], 1)
    assert _preview(session, customer, *waves, REST) == ([2, 2, 3, 1], 0)
    assert session.scalars(select(WavePlan)).all() == []
    plan = _plan(session, customer, *waves)
    drawn, listed, next_ones = _accounts(session, plan)
    assert listed == ["b", "f"]
    left = [it for it in letters if it not in drawn + listed]
    assert (len(drawn), next_ones, plan.unplanned) == (2, left[:3], 1)
    assert [it.state for it in list_waves(session, plan.id)] == ["WAITING", "PLANNED", "PLANNED"]


def test_a_plan_and_its_waves_are_stored_as_they_were_ordered(
    session: Session, customer: Customer, letters: str
) -> None:
    key_id = session.scalars(select(ApiKey.id).where(ApiKey.prefix == customer.prefix)).one()
    window = Window(start=time(22), end=time(6), time_zone="UTC", first_day=date(2026, 3, 2))
    threshold = ErrorThreshold(stop_after_errors="5")
    given: dict[str, Any] = {"name": "Pilot", "lines_per_minute": 60, "continue_if_clean": False}
    waves = WaveOrder(size=1, window=window, error_threshold=threshold, **given), REST
    more = {"name": "Spring", "continue_if_clean": True, "api_key_id": key_id}
    plan = _plan(session, customer, *waves, **more)
    session.refresh(plan)
    assert (plan.organisation_id, plan.name, plan.seed, plan.continue_if_clean, plan.finished_at) == (
        *(customer.organisation_id, "Spring", 7, True),
        None,
    )
    assert plan.import_supplier_id == find_supplier(session, customer).id
    first, second = list_waves(session, plan.id)
    assert [(it.number, it.name, it.time_window, it.continue_if_clean) for it in (first, second)] == [
        (1, "Pilot", window.to_dict(), False),
        (2, None, None, None),
    ]
    batches = [batch_of(session, it) for it in (first, second)]
    assert [(it.name, it.lines_per_minute, it.lines) for it in batches] == [
        ("Pilot", 60, 1),
        ("Wave 2", None, len(letters) - 1),
    ]
    assert batches[0].brake == threshold.to_dict()
    assert batches[1].brake == replace(IMPORT_THRESHOLD, stop_min_lines=10).to_dict()
    for batch in batches:
        assert (batch.mode, batch.source, batch.kind) == ("import", "pending", "accounts")
        assert (batch.operations_team_id, batch.api_key_id) == (plan.operations_team_id, key_id)
        assert (batch.state, batch.reason, batch.runs_until) == (
            *("PAUSED", "window_closed"),
            datetime(1970, 1, 1, tzinfo=UTC),
        )
    assert acts(session) == [("wave.queued", "1", {"batch_id": str(first.batch_id)})]
    (entry,) = list_entries(session, subject_kind="wave_plan")
    assert (entry.action, entry.subject, entry.organisation_id) == (
        *("wave_plan.created", str(plan.id)),
        customer.organisation_id,
    )
    assert entry.details == {"import_supplier": customer.import_supplier, "waves": 2, "seed": 7}


@pytest.mark.usefixtures("letters")
def test_the_seed_of_a_plan_may_be_nought(session: Session, customer: Customer) -> None:
    assert _plan(session, customer, REST, seed=0).seed == 0


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("make", [_plan, _preview])
def test_accounts_that_are_not_pending_or_listed_twice_are_named(
    session: Session, customer: Customer, make: Callable[..., Any]
) -> None:
    waves = (WaveOrder(accounts=["a", "skipped", "b", "b"]), REST, WaveOrder(accounts=["x", "a", "c"]))
    with pytest.raises(errors.RequestFailedValidationError) as raised:
        make(session, customer, *waves)
    assert raised.value.errors == [
        errors.ErrorItem("invalid", f"Account {fault}.", f"waves.{place}")
        for fault, place in (
            ("'skipped' is not pending", "0.accounts.1"),
            ("'b' is listed before", "0.accounts.3"),
            ("'x' is not pending", "2.accounts.0"),
            ("'a' is listed before", "2.accounts.1"),
        )
    ]


def _payload(points: int = 1, *kinds: str, agreements: bool = True, statements: bool = False) -> Any:
    given = [{"supply_type": kind, "agreements": [{}] * agreements} for kind in kinds or ("GAS",)]
    addresses = [{"meter_points": given[:1] * points if len(kinds) < 2 else given}]
    return {"supply_addresses": addresses, "statements": [{}] * statements}


def test_a_draw_takes_one_of_each_stratum_and_then_its_share(session: Session, customer: Customer) -> None:
    """Of 12 + 6 + 2 accounts, eight are one of each, and then those whose share is due."""
    add_pending(session, customer, *(f"G{n:02}" for n in range(12)), payload=_payload())
    add_pending(session, customer, *(f"P{n:02}" for n in range(6)), payload=_payload(1, "ELECTRICITY"))
    add_pending(session, customer, *(f"R{n:02}" for n in range(2)), payload=_payload(2, "GAS", "ELECTRICITY"))
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


@pytest.mark.parametrize(
    ("payload", "stratum"),
    [
        ({}, "no supply, no meter point, without agreements, without statements"),
        (_payload(1, agreements=False), "GAS, 1 meter point, without agreements, without statements"),
        (_payload(2, statements=True), "GAS, 2 meter points, with agreements, with statements"),
        (_payload(4), "GAS, 3 or more meter points, with agreements, without statements"),
    ],
)
def test_a_stratum_is_described(session: Session, customer: Customer, payload: Any, stratum: str) -> None:
    add_pending(session, customer, "a", payload=payload)
    (wave,) = list_waves(session, _plan(session, customer, WaveOrder(sample=5)).id)
    assert wave.strata == [{"stratum": stratum, "pending": 1, "drawn": 1}]


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
