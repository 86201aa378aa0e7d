"""What is reported of plans and their waves, and forecast, beside what was true of ten recorded books.

Each book of 3,000 to 10,000 accounts was rehearsed, then a pilot of 5 % was migrated, and then the rest, on
two processors that were shared with other people's tests."""

import json
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from statistics import median

import pytest
from sqlalchemy.orm import Session

from migration_service.models import WavePlan
from migration_service.services.batches.results.pace import Work
from migration_service.services.setup.suppliers import list_owned
from migration_service.services.waves.forecast import (
    MeasuredRun,
    Seconds,
    estimate_seconds,
    forecast_end,
    read_runs,
)
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.reports import describe_state, report_plan
from migration_service.services.waves.running import follow_batch, run_wave
from migration_service.states import BatchState, WaveState
from support.factories import Customer
from support.rows import add_chunk, find_supplier, make_batch
from unit.services.waves import wave_rows
from unit.services.waves.wave_rows import EVENING, MIDNIGHT, OPEN_NOW, batch_of, make_plan

pytestmark = pytest.mark.usefixtures("now")


def test_a_wave_says_what_it_waits_for_and_when(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = wave_rows.make_plan(session, customer, WaveState.CLEAN, WaveState.WAITING)
    first, second = list_waves(session, plan.id)

    def say() -> list[str]:
        session.flush()
        return [describe_state(it) for it in report_plan(session, plan).waves]

    assert say() == ["CLEAN", "WAITING for the approval of wave 1"]
    first.state = WaveState.APPROVED
    assert say()[1] == "WAITING"
    second.time_window = wave_rows.CLOSED_NOW
    assert say()[1] == "WAITING for the window at 2026-03-03 06:00:00 UTC"
    first.state, first.reason = WaveState.PAUSED, "window_closed"
    assert say()[0] == "PAUSED (window_closed)"
    alone = report_plan(session, wave_rows.make_plan(session, other, WaveState.WAITING)).waves[0]
    assert describe_state(alone) == "WAITING for somebody to start it"


def test_a_list_of_open_plans_leaves_out_those_that_have_ended(session: Session, customer: Customer) -> None:
    ended = wave_rows.make_plan(session, customer, WaveState.APPROVED, finished_at=EVENING)
    open_ = wave_rows.make_plan(session, customer, WaveState.WAITING)
    owner = customer.organisation_id
    assert list_owned(session, WavePlan, organisation_id=owner) == [open_, ended]
    assert list_owned(session, WavePlan, organisation_id=owner, only_open=True) == [open_]


def test_a_wave_says_at_once_that_it_is_being_undone(session: Session, customer: Customer) -> None:
    plan = wave_rows.make_plan(session, customer, WaveState.CLEAN, WaveState.APPROVED)
    first, _ = list_waves(session, plan.id)
    wave_rows.undo_wave(session, customer, first)
    told = [describe_state(it) for it in report_plan(session, plan).waves]
    assert told == ["CLEAN, being undone", "APPROVED"]


_BOOKS = [json.loads(line) for line in Path(__file__).with_name("books.ndjson").read_text().splitlines()]
_EXACT = MeasuredRun(rate=10.0, chunks=1_000)


def _measure(work: list[list[float]], limit: int | None, *, is_rehearsal: bool = False) -> MeasuredRun:
    done = [Work(0.0, 0), *(Work(at, int(lines)) for at, lines in work)]
    run = MeasuredRun.of(done, is_rehearsal=is_rehearsal, lines_per_minute=limit)
    assert run is not None
    return run


def test_the_three_newest_imports_and_the_newest_rehearsal_are_measured_and_older_ones_count_less(
    session: Session, customer: Customer
) -> None:
    for number, mode in enumerate(["import"] * 4 + ["dry-run"] * 2 + ["stage"], 1):
        begun = EVENING + timedelta(minutes=number)
        batch = make_batch(session, customer, mode=mode, started_at=begun, lines_per_minute=100 * number)
        add_chunk(session, batch, worked=10 * number, worked_at=begun + timedelta(seconds=10))
    runs = read_runs(session, find_supplier(session, customer).id)
    found = [(run.rate, run.age, run.is_rehearsal, run.lines_per_minute) for run in runs]
    assert found == [(4, 0, False, 400), (3, 1, False, 300), (2, 2, False, 200), (12, 0, True, 600)]


@pytest.mark.parametrize("has_rehearsal", [True, False])
def test_nine_of_ten_is_true_of_eight_of_ten_recorded_books_and_is_narrow_enough_to_plan_with(
    has_rehearsal: bool,
) -> None:
    assert len(_BOOKS) == 10
    found = []
    for book in _BOOKS:
        limit = book["lines_per_minute"]
        runs = [_measure(book["pilot"], limit)]
        runs += [_measure(book["rehearsal"], None, is_rehearsal=True)] if has_rehearsal else []
        seconds = estimate_seconds(runs, book["lines"], limit)
        assert seconds is not None
        found.append((book["seconds"], seconds))
    assert sum(true <= seconds.most for true, seconds in found) >= 8, found
    assert 2 <= sum(true <= seconds.half for true, seconds in found) <= 8, found
    assert median(seconds.most / seconds.half for _true, seconds in found) < 2.2


@pytest.mark.parametrize(
    ("runs", "limit", "half", "most"),
    [
        ([], None, None, None),
        ([_EXACT], None, 100.0, (130.0, 170.0)),
        ([_EXACT], 300, 200.0, (205.0, 206.0)),  # its own limit is below what was measured
        # A slower run beside it makes both times longer, and the second one by more.
        ([_EXACT, MeasuredRun(rate=5.0, chunks=1_000)], None, 141.4, (200.0, 300.0)),
        # A single chunk says little.
        ([MeasuredRun(rate=10.0, chunks=1)], None, 100.0, (210.0, 280.0)),
        # A pilot that its limit held back does not say how fast a wave without one is.
        ([_EXACT, MeasuredRun(rate=1.0, chunks=9, lines_per_minute=60)], None, 100.0, (130.0, 170.0)),
        ([MeasuredRun(rate=1.0, chunks=9, lines_per_minute=60)], None, 1000.0, (1000.0, inf)),
    ],
)
def test_a_wave_takes_as_long_as_the_runs_before_it(
    runs: list[MeasuredRun], limit: int | None, half: float | None, most: tuple[float, float] | None
) -> None:
    seconds = estimate_seconds(runs, 1_000, limit)
    assert (seconds is None) == (half is None)
    if seconds and half and most:
        assert seconds.half == pytest.approx(half, abs=0.1)
        assert most[0] <= seconds.most <= most[1]


@pytest.mark.parametrize(
    ("window", "most", "ends_at", "fits"),
    [
        (None, 7200.0, EVENING + timedelta(hours=2), None),
        (OPEN_NOW, 5400.0, MIDNIGHT, True),
        (OPEN_NOW, 5401.0, MIDNIGHT + timedelta(hours=22, seconds=1), False),
        (OPEN_NOW | {"days": ["mon"]}, 5401.0, MIDNIGHT + timedelta(days=6, hours=22, seconds=1), False),
        (OPEN_NOW, 1e9, None, False),
    ],
)
def test_only_the_time_within_windows_counts(
    window: dict[str, object] | None, most: float, ends_at: datetime | None, fits: bool | None
) -> None:
    found = forecast_end(Seconds(60.0, most), window, (EVENING, EVENING))
    assert (found.ends_at_50, found.ends_at_90) == (EVENING + timedelta(minutes=1), ends_at)
    assert found.fits_window is fits


def test_waves_are_forecast_one_after_the_other_and_keep_what_was_forecast_when_they_began(
    session: Session, customer: Customer, now: datetime
) -> None:
    rehearsal = make_batch(session, customer, mode="dry-run", state=BatchState.COMPLETED)
    rehearsal.started_at = now - timedelta(minutes=20)
    session.flush()
    plan = make_plan(session, customer, WaveState.WAITING, WaveState.PLANNED)
    first, second = list_waves(session, plan.id)
    second.time_window = OPEN_NOW
    for wave in (first, second):
        add_chunk(session, batch_of(session, wave, lines=600), 1, counts={"PENDING": 600})
    assert [it.seconds_90 for it in report_plan(session, plan).waves] == [None, None], "nothing is measured"

    for number in range(1, 11):
        at = rehearsal.started_at + timedelta(minutes=number)
        add_chunk(session, rehearsal, 100 * number, worked=150, worked_at=at)
    one, two = report_plan(session, plan).waves
    assert one.seconds_50 == pytest.approx(120, abs=1), "twice as fast as 150 lines a minute"
    assert one.ends_at_50 == now + timedelta(seconds=one.seconds_50 or 0)
    assert one.ends_at_90 and two.ends_at_90 and one.ends_at_90 < two.ends_at_90
    assert (one.fits_window, two.fits_window) == (None, True)

    batch = batch_of(session, first)
    run_wave(session, plan, first, batch, until=None)
    batch = batch_of(session, first, state=BatchState.COMPLETED, finished_at=now + timedelta(minutes=5))
    follow_batch(session, plan, first, batch)
    session.flush()
    ended = report_plan(session, plan).waves[0]
    assert (ended.ends_at_50, ended.ends_at_90) == (one.ends_at_50, one.ends_at_90)
    assert ended.ended_at == now + timedelta(minutes=5)
