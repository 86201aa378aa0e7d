"""An error threshold counts the chunks that were processed last, and the lines whose codes count."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from migration_service.errors import BatchStateError
from migration_service.models import Batch
from migration_service.services.batches.error_thresholds import (
    NO_THRESHOLD,
    ErrorThreshold,
    ThresholdCounts,
    count_codes,
    measure,
    set_threshold,
)
from migration_service.states import BatchState
from support.audit import list_entries
from support.factories import Customer
from unit.services.batches.batch_rows import add_chunk, make_batch


@pytest.fixture
def batch(session: Session, customer: Customer) -> Batch:
    """A batch with chunks of which the later ones were processed first."""
    batch = make_batch(session, customer)
    now = session.execute(select(func.now())).scalar_one()
    for first, (ago, done, failures) in enumerate(
        [
            (1, 10, {"a": 1}),
            (2, 10, {"a": 2, "b": 3}),
            (3, 10, {"a b": 4}),
            (4, 10, {}),
            (5, 0, {"a": 50}),  # nothing of it has an outcome now, as its failed lines are retried
            (6, 10, {"b": 5}),
        ],
        1,
    ):
        worked_at = now - timedelta(minutes=ago)
        add_chunk(session, batch, first, done=done, failures=failures, worked_at=worked_at)
    add_chunk(session, batch, 9, done=10, failures={"a": 70})  # nobody has processed it
    add_chunk(session, make_batch(session, customer), 1, done=10, failures={"a": 90}, worked_at=now)
    return batch


def _measured(
    session: Session, batch: Batch, window: int | None, *ignored: str, minutes: float | None = None
) -> ThresholdCounts:
    threshold = ErrorThreshold(stop_after_errors="1", stop_window_lines=window, stop_ignore_codes=ignored)
    now: datetime = session.execute(select(func.now())).scalar_one()
    since = None if minutes is None else now - timedelta(minutes=minutes)
    return measure(session, batch.id, threshold, since)


@pytest.mark.parametrize(
    ("window", "lines", "errors"),
    [
        (None, 50, 15),
        (1, 10, 1),
        (10, 10, 1),
        (11, 20, 6),
        (20, 20, 6),
        (21, 30, 10),
        (41, 50, 15),
        (90, 50, 15),
    ],
)
def test_a_window_has_the_chunks_that_were_worked_on_last(
    session: Session, batch: Batch, window: int | None, lines: int, errors: int
) -> None:
    assert _measured(session, batch, window) == ThresholdCounts(lines, errors)


@pytest.mark.parametrize(
    ("ignored", "errors"), [(["a"], 12), (["b"], 7), (["a", "b"], 0), (["c"], 15), (["a", "c"], 12)]
)
def test_a_line_does_not_count_if_it_has_no_other_codes_than_those_left_out(
    session: Session, batch: Batch, ignored: list[str], errors: int
) -> None:
    assert _measured(session, batch, None, *ignored) == ThresholdCounts(50, errors)


@pytest.mark.parametrize(
    ("minutes", "lines", "errors"), [(0.5, 0, 0), (2, 10, 1), (2.5, 20, 6), (60, 50, 15)]
)
def test_only_the_chunks_count_that_were_worked_on_since_somebody_resumed(
    session: Session, batch: Batch, minutes: float, lines: int, errors: int
) -> None:
    assert _measured(session, batch, None, minutes=minutes) == ThresholdCounts(lines, errors)


def test_a_line_with_a_warning_that_counts_counts_once(session: Session, customer: Customer) -> None:
    batch = make_batch(session, customer)
    warned = {"|w": 3, "|v w": 1, "|v": 2, "a|w": 1, "b|w": 1, "a b|v w": 1}
    failures = {"a": 2, "b": 1, "a b": 1}
    add_chunk(session, batch, 1, done=20, failures=failures, warned=warned, worked_at=func.now())
    add_chunk(session, batch, 2, done=10, failures={"b": 1}, warned=None, worked_at=func.now())
    counted, ignored = ("w",), ("a",)
    for threshold, errors, codes in (
        (ErrorThreshold(stop_after_errors="1"), 5, {"b": 3, "a": 3}),
        (ErrorThreshold(stop_after_errors="1", stop_count_warnings=counted), 9, {"w": 7, "a": 3, "b": 3}),
        # One of the lines that failed with `a` alone counts for its warning.
        (
            ErrorThreshold(stop_after_errors="1", stop_ignore_codes=ignored, stop_count_warnings=counted),
            *(3 + 5, {"w": 7, "b": 3}),
        ),
    ):
        assert measure(session, batch.id, threshold, None) == ThresholdCounts(30, errors)
        assert count_codes(session, batch.id, threshold, None) == codes


def test_another_threshold_may_be_set_until_a_batch_is_cancelled(session: Session, batch: Batch) -> None:
    threshold = ErrorThreshold(stop_after_errors="5%", stop_min_lines=3, stop_ignore_codes=("a",))
    stored = []
    for it in (threshold, NO_THRESHOLD):
        set_threshold(session, batch, it)
        session.flush()
        stored.append(session.scalar(select(Batch.brake).where(Batch.id == batch.id)))
    assert stored == [threshold.to_dict() | {"stop_ignore_codes": ["a"]}, None]
    session.execute(update(Batch).values(state=BatchState.CANCELLED))
    with pytest.raises(BatchStateError, match="cancelled"):
        set_threshold(session, batch, threshold)
    entries = list_entries(session, subject_kind="batch")
    assert [(it.action, it.subject, it.organisation_id, it.details) for it in entries] == [
        ("batch.brake_set", str(batch.id), batch.organisation_id, it.to_dict())
        for it in (threshold, NO_THRESHOLD)
    ]
