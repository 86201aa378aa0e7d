"""The error thresholds, and when they pause a batch."""

from dataclasses import replace
from typing import Any

import pytest

from migration_service.errors import RequestFailedValidationError
from migration_service.services.batches.error_threshold_options import read_threshold
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"stop_after_errors": "off"}, NO_THRESHOLD),
        ({"stop_after_errors": "12"}, ErrorThreshold(stop_after_errors="12")),
        ({"stop_after_errors": "5%"}, ErrorThreshold(stop_after_errors="5%", stop_min_lines=200)),
        (
            {"stop_after_errors": "50%", "stop_window_lines": 300},
            ErrorThreshold(stop_after_errors="50%", stop_min_lines=300, stop_window_lines=300),
        ),
        (
            {"stop_after_errors": "1", "stop_window_lines": 10, "stop_ignore_codes": ["required"]},
            ErrorThreshold(stop_after_errors="1", stop_window_lines=10, stop_ignore_codes=("required",)),
        ),
        (
            {"stop_after_errors": "1%", "stop_min_lines": 1, "stop_window_lines": 1},
            ErrorThreshold(stop_after_errors="1%", stop_min_lines=1, stop_window_lines=1),
        ),
        (
            {"stop_after_errors": "1%", "stop_min_lines": 10_000, "stop_window_lines": 10_000},
            ErrorThreshold(stop_after_errors="1%", stop_min_lines=10_000, stop_window_lines=10_000),
        ),
        (
            {"stop_after_errors": "7", "stop_window_lines": 7, "stop_ignore_codes": ["required"] * 50},
            ErrorThreshold(stop_after_errors="7", stop_window_lines=7, stop_ignore_codes=("required",) * 50),
        ),
    ],
)
def test_what_is_asked_for_is_completed(given: dict[str, Any], expected: ErrorThreshold | None) -> None:
    assert read_threshold(**given) == expected


def test_how_many_lines_it_needs_is_only_said_if_they_are_fewer_than_it_looks_at() -> None:
    of = {"stop_after_errors": "50%", "stop_window_lines": 200}
    said = [words % told for words, told in (put_in_words(of | {"stop_min_lines": it}) for it in (199, 200))]
    window = "more than 50% of the last 200 lines failed"
    assert said == [f"{window}, from 199 lines on", window]


@pytest.mark.parametrize(
    ("given", "code", "attr"),
    [
        ({"stop_after_errors": "0"}, "invalid", "stop_after_errors"),
        ({"stop_after_errors": "1.5"}, "invalid", "stop_after_errors"),
        ({"stop_after_errors": "100%"}, "invalid", "stop_after_errors"),
        ({"stop_after_errors": "\u0665%"}, "invalid", "stop_after_errors"),
        ({"stop_after_errors": "1234567890"}, "invalid", "stop_after_errors"),
        ({"stop_after_errors": "7", "stop_window_lines": 0}, "out_of_range", "stop_window_lines"),
        ({"stop_window_lines": 5}, "required", "stop_after_errors"),
        ({"stop_ignore_codes": ["required"]}, "required", "stop_after_errors"),
        ({"stop_after_errors": "off", "stop_min_lines": 5}, "required", "stop_after_errors"),
        ({"stop_after_errors": "7", "stop_min_lines": 5}, "invalid", "stop_min_lines"),
        ({"stop_after_errors": "7%", "stop_min_lines": 0}, "out_of_range", "stop_min_lines"),
        ({"stop_after_errors": "7%", "stop_window_lines": 10_001}, "out_of_range", "stop_window_lines"),
        ({"stop_after_errors": "7", "stop_window_lines": 6}, "out_of_range", "stop_window_lines"),
        (
            {"stop_after_errors": "7%", "stop_min_lines": 9, "stop_window_lines": 8},
            "out_of_range",
            "stop_window_lines",
        ),
        ({"stop_after_errors": "7", "stop_ignore_codes": ["No Code"]}, "invalid_choice", "stop_ignore_codes"),
        ({"stop_after_errors": "7", "stop_ignore_codes": ["required"] * 51}, "invalid", "stop_ignore_codes"),
        ({"stop_count_warnings": ["ledger_missing"]}, "required", "stop_after_errors"),
        (
            {"stop_after_errors": "7", "stop_count_warnings": ["unknown_field"] * 51},
            "invalid",
            "stop_count_warnings",
        ),
        # An error counts as it is.
        (
            {"stop_after_errors": "7", "stop_count_warnings": ["customer_required"]},
            "invalid_choice",
            "stop_count_warnings",
        ),
    ],
)
def test_what_does_not_make_sense_is_refused(given: dict[str, Any], code: str, attr: str) -> None:
    with pytest.raises(RequestFailedValidationError) as refused:
        read_threshold(**given)
    assert [(item.code, item.attr) for item in refused.value.errors] == [(code, attr)]


@pytest.mark.parametrize(
    "code",
    [
        "ledger_missing",
        "transaction_date_changed",
        "note_created_in_future",
        "already_added",
        "unknown_field",
    ],
)
def test_the_warnings_of_every_kind_of_line_can_count(code: str) -> None:
    threshold = read_threshold(stop_after_errors="7", stop_count_warnings=[code])
    assert threshold == ErrorThreshold(stop_after_errors="7", stop_count_warnings=(code,))
    stored = threshold_to_store(threshold)
    assert stored_threshold(stored) == threshold
    assert (stored or {})["stop_count_warnings"] == [code]
    assert (threshold_to_store(ErrorThreshold(stop_after_errors="7")) or {})["stop_count_warnings"] == []


def test_a_misspelt_code_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(RequestFailedValidationError) as refused:
        read_threshold(
            stop_after_errors="7",
            stop_ignore_codes=["newer_version_refusd"],
            stop_count_warnings=["ledgers_missing"],
        )
    assert [it.detail for it in refused.value.errors] == [
        "'newer_version_refusd' is no code of an error: did you mean newer_version_refused?",
        "'ledgers_missing' is no code of a warning: did you mean ledger_missing?",
    ]


def test_what_needs_a_threshold_is_named_and_all_faults_are_found() -> None:
    with pytest.raises(RequestFailedValidationError) as refused:
        read_threshold(stop_min_lines=0, stop_window_lines=20_000, stop_ignore_codes=["-"])
    assert [(item.code, item.attr) for item in refused.value.errors] == [
        ("required", "stop_after_errors"),
        ("out_of_range", "stop_min_lines"),
        ("out_of_range", "stop_window_lines"),
        ("invalid_choice", "stop_ignore_codes"),
    ]
    assert refused.value.errors[0].detail == "stop_min_lines needs a number or a percentage of errors."


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
