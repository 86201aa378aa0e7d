"""The pace of a batch, and the range of the time that is left."""

from typing import Any

import pytest

from migration_service.services.batches.results.pace import (
    Pace,
    Work,
    measure_pace,
    measure_rate,
    round_range,
)


def _steady(chunks: int, *, every: float = 1.0, begin: float = 0.0, lines: int = 100) -> list[Work]:
    """Return the work of a batch that does a chunk each second, or each `every` seconds."""
    return [Work(begin + every * place, lines) for place in range(chunks + 1)]


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
