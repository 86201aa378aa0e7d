"""How fast running batches are, how long they will take, and why some make no progress."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import Batch
from migration_service.services.batches.results.activity import Activity, read_activity
from migration_service.services.batches.results.pace import (
    Pace,
    Work,
    measure_pace,
    measure_rate,
    round_range,
)
from migration_service.states import BatchCondition, BatchState
from support.factories import Customer
from support.rows import add_chunk, make_batch
from unit.services.batches.batch_rows import seconds

_PENDING = {"PENDING": 1}


@pytest.mark.parametrize(
    ("kind", "queue"), [("accounts", "batch"), ("transactions", "batch"), ("payment-instructions", "vendors")]
)
def test_a_batch_is_worked_on_by_the_workers_of_the_queue_of_its_kind(
    session: Session, customer: Customer, kind: str, queue: str
) -> None:
    batch = make_batch(session, customer, kind=kind)
    add_chunk(session, batch, counts=_PENDING)
    assert _activity(session, batch).queue == queue


def _activity(session: Session, batch: Batch) -> Activity:
    return read_activity(session, [batch.id])[batch.id]


def _ago(session: Session, number: float) -> Any:
    return session.scalar(select(func.now() - timedelta(seconds=number)))


@pytest.mark.parametrize(
    ("worked", "runs", "created", "idle"),
    [
        ((50, 20, None), 80, 90, 20),
        ((50, 60), 30, 300, 30),  # it was resumed, or its window opened
        ((None,), 40, 300, 40),  # its upload took long
        ((None,), None, 70, 70),
    ],
)
def test_a_batch_is_idle_since_lines_were_worked_on_or_it_began_to_run(
    session: Session,
    customer: Customer,
    *,
    worked: tuple[int | None, ...],
    runs: int | None,
    created: int,
    idle: int,
) -> None:
    times = {"created_at": created, "runs_since": runs}
    moments = {name: ago and _ago(session, ago) for name, ago in times.items()}
    batch = make_batch(session, customer, **moments)
    other = make_batch(session, customer, kind="payment-instructions")
    for first, ago in enumerate(worked, 1):
        add_chunk(session, batch, first, counts=_PENDING, worked_at=ago and _ago(session, ago))
    add_chunk(session, other, counts=_PENDING, worked_at=func.now(), throttled_at=func.now())
    found = _activity(session, batch)
    assert (found.idle_seconds, found.is_throttled) == (idle, False)


@pytest.mark.parametrize(
    ("attempts", "taken", "found"),
    [(None, 1, (3, False)), ([new_id()], 59, (300, True)), ([new_id()], 60, (300, False))],
)
def test_a_batch_is_not_idle_while_workers_process_others_before_it(
    session: Session, customer: Customer, *, attempts: list[UUID] | None, taken: int, found: tuple[int, bool]
) -> None:
    batch, other = (make_batch(session, customer, created_at=_ago(session, 300)) for _ in range(2))
    ended = make_batch(session, customer, state=BatchState.COMPLETED, finished_at=func.now())
    add_chunk(session, batch, counts=_PENDING, attempts=attempts, dispatched_at=_ago(session, taken))
    add_chunk(session, other, counts=_PENDING, worked_at=_ago(session, 3), attempts=[new_id()])
    add_chunk(session, ended, worked_at=_ago(session, 1))
    activity = _activity(session, batch)
    assert (activity.idle_seconds, activity.is_taken) == found


@pytest.mark.parametrize(
    ("runs", "waits", "mean"),
    [
        (None, {299: 0.2, 300: 0.9}, 0.2),
        (50, {49: 0.2, 50: 0.9}, 0.2),
        (None, {6: 0.9, 1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5}, 0.3),
        (None, {300: 0.9}, None),
    ],
)
def test_workers_wait_for_a_processor_as_in_the_last_five_pieces_of_five_minutes_of_this_run(
    session: Session, customer: Customer, *, runs: int | None, waits: dict[int, float], mean: float | None
) -> None:
    runs_since = runs and _ago(session, runs)
    batch, other = (make_batch(session, customer, runs_since=runs_since) for _ in range(2))
    add_chunk(session, other, worked_at=_ago(session, 0), processor_wait=1.0)
    for first, (ago, wait) in enumerate(waits.items(), 1):
        worked_at = _ago(session, ago)
        add_chunk(session, batch, first, counts=_PENDING, worked_at=worked_at, processor_wait=wait)
    assert _activity(session, batch).processor_wait == pytest.approx(mean)


@pytest.mark.parametrize(("ago", "idle"), [(199, 0), (290, 90)])
def test_a_batch_is_not_idle_until_its_rate_lets_the_next_hundred_lines_through(
    session: Session, customer: Customer, *, ago: int, idle: int
) -> None:
    batch = make_batch(session, customer, created_at=_ago(session, 999), lines_per_minute=30)
    add_chunk(session, batch, 1, worked_at=_ago(session, ago))
    add_chunk(session, batch, 2, counts=_PENDING)
    assert _activity(session, batch).idle_seconds == idle


@pytest.mark.parametrize(("throttled", "expected"), [((14, 90), True), ((90, 15), False), ((None, 3), True)])
def test_a_batch_is_throttled_for_fifteen_seconds(
    session: Session, customer: Customer, throttled: tuple[int | None, ...], *, expected: bool
) -> None:
    batch = make_batch(session, customer)
    for first, ago in enumerate(throttled, 1):
        throttled_at = None if ago is None else func.now() - seconds(ago)
        add_chunk(session, batch, first, counts=_PENDING, throttled_at=throttled_at)
    assert _activity(session, batch).is_throttled is expected


def test_only_a_running_batch_with_pending_lines_is_active(session: Session, customer: Customer) -> None:
    def make(state: BatchState, *chunks: dict[str, int]) -> Batch:
        batch = make_batch(session, customer, state=state)
        for first, counts in enumerate(chunks, 1):
            add_chunk(session, batch, first, counts=counts)
        return batch

    running = make(BatchState.RUNNING, {"VALID": 1}, {"VALID": 1, "PENDING": 2})
    others = [
        make(BatchState.RUNNING, {"VALID": 1}),
        make(BatchState.RUNNING, {"DEFERRED": 1}),  # each is tried again by itself
        make(BatchState.RUNNING),
        make(BatchState.PAUSED, _PENDING),
        make(BatchState.WAITING, _PENDING),
    ]
    make(BatchState.RUNNING, _PENDING)
    assert [*read_activity(session, [it.id for it in (running, *others)])] == [running.id]


_GOING: dict[str, Any] = {
    "idle_seconds": 5.0,
    "is_throttled": False,
    "processor_wait": 0.3,
    "is_taken": True,
    "queue": "batch",
}


@pytest.mark.parametrize(
    ("changed", "condition"),
    [
        ({}, None),
        ({"processor_wait": None}, None),
        ({"idle_seconds": 60.0}, None),
        ({"idle_seconds": 60.1}, BatchCondition.STALLED),
        ({"processor_wait": 0.74}, None),
        ({"processor_wait": 0.75}, BatchCondition.STARVING),
        ({"processor_wait": 0.9, "is_taken": False}, BatchCondition.STARVING),
        ({"processor_wait": 0.9, "idle_seconds": 61.0}, BatchCondition.STARVING),
        # Nobody has taken a chunk: there is no worker that could starve.
        ({"processor_wait": 0.9, "idle_seconds": 61.0, "is_taken": False}, BatchCondition.STALLED),
        ({"is_throttled": True, "idle_seconds": 90.0, "processor_wait": 0.9}, BatchCondition.THROTTLED),
    ],
)
def test_why_a_batch_makes_little_or_no_progress(
    changed: dict[str, Any], condition: BatchCondition | None
) -> None:
    assert Activity(**_GOING | changed).condition is condition


def _steady(chunks: int, *, every: float = 1.0, begin: float = 0.0) -> list[Work]:
    """Return the work of a batch that does a chunk each second, or each `every` seconds."""
    return [Work(begin + every * place, 100) for place in range(chunks + 1)]


def _measure(work: list[Work], *, after: float = 0.0, pending: int = 6_000, **given: Any) -> Pace | None:
    return measure_pace(work, **{"since": 0.0, "now": work[-1].at + after, "pending": pending} | given)


def _known(*args: Any, **given: Any) -> Pace:
    pace = _measure(*args, **given)
    assert pace
    return pace


@pytest.mark.parametrize("work", [[Work(0, 100)], _steady(3, every=9.0), _steady(40, every=0.1)])
def test_nothing_is_said_before_enough_was_seen(work: list[Work]) -> None:
    assert _measure(work) is None


def test_a_steady_batch_has_a_narrow_range_around_what_is_true() -> None:
    pace = _known(_steady(100))
    assert (pace.rate, pace.left) == pytest.approx((100, 60))
    assert 40 < pace.low < 60 < pace.high < 90


def test_four_chunks_are_enough() -> None:
    assert _known(_steady(4, every=1.25)).rate == pytest.approx(80)


def test_nobody_works_during_a_pause() -> None:
    """The batch was paused at 50 and resumed at 650 seconds."""
    before = _known(_steady(50), pending=6_000)
    pace = _known(_steady(50), after=600.4, since=650.0)
    assert (pace.rate, pace.left) == pytest.approx((before.rate, before.left - 0.4))


def test_the_rate_of_a_whole_run_does_not_count_its_pauses() -> None:
    paused = [*_steady(5), *_steady(5, begin=300.0), *_steady(5, begin=900.0)]
    assert measure_rate(paused) == pytest.approx(1_700 / (15 + 2 * 3))
    assert measure_rate([Work(0, 0), Work(2, 100), Work(602, 100)]) == pytest.approx(200 / (2 + 6))
    assert measure_rate([Work(0, 0)]) is None


def test_a_limit_of_lines_bounds_the_time_from_below() -> None:
    free, bound = _known(_steady(100)), _known(_steady(100), lines_per_minute=3_000)
    assert (free.rate, bound.rate) == pytest.approx((100, 50))
    assert bound.low >= 0.6 * 6_000 / 50


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 3, (0, 10)), (41, 69, (40, 70)), (84, 91, (80, 120)), (95, 301, (60, 360)), (240, 360, (240, 360))],
)
def test_a_range_is_rounded_outwards(low: float, high: float, expected: tuple[float, float]) -> None:
    assert round_range(low, high) == expected
