"""The error thresholds, and when they pause a batch."""

from dataclasses import replace

import pytest

from migration_service.services.batches.error_thresholds import (
    NO_THRESHOLD,
    ErrorThreshold,
    ThresholdCounts,
    fit_to_wave,
    put_in_words,
    stored_threshold,
    threshold_to_store,
    usual_threshold,
)
from migration_service.states import BatchMode


def test_how_many_lines_it_needs_is_only_said_if_they_are_fewer_than_it_looks_at() -> None:
    of = {"stop_after_errors": "50%", "stop_window_lines": 200}
    said = [words % told for words, told in (put_in_words(of | {"stop_min_lines": it}) for it in (199, 200))]
    window = "more than 50% of the last 200 lines failed"
    assert said == [f"{window}, from 199 lines on", window]


@pytest.mark.parametrize(
    ("after", "min_lines", "lines", "errors", "reached"),
    [
        ("1%", None, 1, 1, True),
        ("3", None, 3, 2, False),
        ("3", None, 3, 3, True),
        ("50%", 4, 4, 2, False),
        ("50%", 4, 5, 3, True),
        ("50%", 4, 3, 3, False),
        ("0%", 4, 4, 0, False),
        ("0%", 4, 400, 1, True),
        ("0.5%", 4, 200, 1, False),
        ("0.5%", 4, 199, 1, True),
    ],
)
def test_a_number_is_enough_and_a_percentage_is_exceeded(
    after: str, min_lines: int | None, lines: int, errors: int, *, reached: bool
) -> None:
    threshold = ErrorThreshold(stop_after_errors=after, stop_min_lines=min_lines)
    assert threshold.is_reached(ThresholdCounts(lines, errors)) is reached


@pytest.mark.parametrize("mode", BatchMode)
def test_only_an_import_has_an_error_threshold_by_default(mode: BatchMode) -> None:
    threshold = usual_threshold(mode)
    usual = ErrorThreshold(stop_after_errors="50%", stop_min_lines=200, stop_window_lines=200)
    assert threshold == (usual if mode is BatchMode.IMPORT else NO_THRESHOLD)
    assert stored_threshold(threshold_to_store(threshold)) == threshold
    assert (threshold_to_store(threshold) is None) is (mode is not BatchMode.IMPORT)


@pytest.mark.parametrize(
    ("lines", "given", "expected"),
    [(100, 200, 20), (200, 200, 40), (30, 200, 10), (5_000, 200, 200), (100, 15, 15), (100, None, None)],
)
def test_the_error_threshold_of_a_wave_is_reached_while_most_of_it_is_still_to_come(
    lines: int, given: int | None, expected: int | None
) -> None:
    threshold = ErrorThreshold(stop_after_errors="2%" if given else "5", stop_min_lines=given)
    assert fit_to_wave(threshold, lines) == replace(threshold, stop_min_lines=expected)
