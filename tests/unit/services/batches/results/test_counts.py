"""The counts of chunks and batches, and the lists of batches."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, null, select
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import Batch, BatchChunk, BatchLine
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.batches.results import counts
from migration_service.services.batches.results.listing import BatchTotals, count_batches, list_batches
from migration_service.states import BatchState, ChunkState
from support.factories import Customer
from support.rows import add_chunk, make_batch
from unit.services.batches.batch_rows import add_lines, seconds

_CODE_A, _CODE_B = {"code": "a"}, {"code": "b"}


@pytest.fixture
def batch(session: Session, customer: Customer) -> Batch:
    return make_batch(session, customer)


def _now(session: Session) -> datetime:
    return session.execute(select(func.now())).scalar_one()


def _recounted(session: Session, chunk: BatchChunk, **given: Any) -> BatchChunk:
    counts.recount(session, chunk.batch_id, **given)
    session.refresh(chunk)
    return chunk


def test_lines_are_counted_by_status_and_by_code(session: Session, batch: Batch) -> None:
    chunk = add_chunk(session, batch)
    for number, (status, errors, warnings) in enumerate(
        [
            ("FAILED", [_CODE_B, _CODE_A, _CODE_A], [_CODE_B]),
            ("FAILED", [_CODE_A, _CODE_B], None),
            ("FAILED", [_CODE_A], None),
            ("FAILED", None, None),
            ("VALID", None, [_CODE_A, _CODE_A]),
            ("VALID", None, [_CODE_A, _CODE_B]),
        ],
        1,
    ):
        line = BatchLine(
            batch_id=batch.id,
            line_number=number,
            status=status,
            errors=errors or null(),
            warnings=warnings or null(),
        )
        session.add(line)
    session.flush()
    _recounted(session, chunk)
    assert chunk.counts == {"FAILED": 4, "VALID": 2}
    assert chunk.error_counts == {"a": 3, "b": 2}
    assert chunk.warning_counts == {"a": 2, "b": 2}
    assert chunk.failures == {"a b": 2, "a": 1, "-": 1}
    assert chunk.warned == {"a b|b": 1, "|a": 1, "|a b": 1}
    assert (chunk.done, chunk.state) == (6, ChunkState.DONE)


def test_a_chunk_has_the_lines_of_its_range_or_those_that_name_it(
    session: Session, batch: Batch, customer: Customer
) -> None:
    other = make_batch(session, customer)
    by_range = add_chunk(session, batch, 1, 2)
    by_account = add_chunk(session, batch, 3, 6, by_account=True)
    add_lines(session, batch, "VALID", "FAILED", first=1)
    add_lines(session, batch, "VALID", "VALID", first=4, chunk_line=3)
    add_lines(session, batch, "STAGED", first=3, chunk_line=4)
    add_lines(session, other, "VALID", "VALID", "VALID", chunk_line=3)
    assert _recounted(session, by_range).counts == {"VALID": 1, "FAILED": 1}
    assert _recounted(session, by_account).counts == {"VALID": 2}


@pytest.mark.parametrize(
    ("before", "statuses", "after"),
    [
        (ChunkState.DISPATCHED, ["VALID", "FAILED"], ChunkState.DONE),
        (ChunkState.PENDING, ["VALID"], ChunkState.DONE),
        (ChunkState.DISPATCHED, ["VALID", "PENDING"], ChunkState.DISPATCHED),
        (ChunkState.PENDING, ["PENDING", "DEFERRED"], ChunkState.PENDING),
        (ChunkState.DISPATCHED, ["PENDING", "DEFERRED"], ChunkState.DISPATCHED),
        (ChunkState.DISPATCHED, ["ADDED", "DEFERRED"], ChunkState.PENDING),
        (ChunkState.DONE, ["ADDED", "PENDING"], ChunkState.PENDING),
        (ChunkState.DONE, ["ADDED"], ChunkState.DONE),
    ],
)
def test_the_state_of_a_chunk_follows_its_lines(
    session: Session, batch: Batch, before: ChunkState, statuses: list[str], after: ChunkState
) -> None:
    earlier = _now(session) - timedelta(minutes=1)
    chunk = add_chunk(
        session, batch, state=before, finished_at=earlier, deferred_since=earlier, not_before=earlier
    )
    add_lines(session, batch, *statuses)
    _recounted(session, chunk)
    is_open = {"PENDING", "DEFERRED"} & set(statuses)
    assert chunk.state == after
    assert chunk.finished_at == (None if is_open else _now(session))
    assert chunk.deferred_since == (earlier if "DEFERRED" in statuses else None)
    assert (chunk.not_before is not None) == ("DEFERRED" in statuses and "PENDING" not in statuses)
    assert chunk.done == len([it for it in statuses if it not in ("PENDING", "DEFERRED")])


@pytest.mark.parametrize(("since", "later"), [(None, 5), (6, 5), (60, 30), (599, 299.5), (3_600, 300)])
def test_deferred_lines_wait_longer_and_longer(
    session: Session, batch: Batch, since: int | None, later: float
) -> None:
    deferred_since = None if since is None else func.now() - seconds(since)
    chunk = add_chunk(session, batch, deferred_since=deferred_since)
    add_lines(session, batch, "DEFERRED")
    _recounted(session, chunk)
    assert chunk.not_before == _now(session) + timedelta(seconds=later)
    if since is None:
        assert chunk.deferred_since == _now(session)


@pytest.mark.parametrize(("tries", "left"), [(0, 0), (1, 0), (2, 1), (3, 2), (5, 2)])
def test_a_chunk_is_released_and_its_deaths_are_nearly_forgotten(
    session: Session, batch: Batch, tries: int, left: int
) -> None:
    chunk = _recounted(session, add_chunk(session, batch, tries=tries, attempts=[new_id()]))
    assert (chunk.tries, chunk.attempts) == (left, None)


def test_work_is_added_up_and_ends_a_throttle(session: Session, batch: Batch) -> None:
    earlier = _now(session) - timedelta(minutes=1)
    given: dict[str, Any] = {"worked": 7, "refused": 3, "worked_at": earlier, "throttled_at": earlier}
    chunk = add_chunk(session, batch, state=ChunkState.DISPATCHED, **given)
    add_lines(session, batch, "PENDING")
    _recounted(session, chunk)
    assert (chunk.worked, chunk.refused, chunk.worked_at, chunk.throttled_at) == (7, 3, earlier, earlier)
    _recounted(session, chunk, worked=5, refused=2, processor_wait=0.5)
    assert (chunk.worked, chunk.refused, chunk.throttled_at, chunk.processor_wait) == (12, 5, None, 0.5)
    assert chunk.worked_at and chunk.worked_at > earlier
    assert _recounted(session, chunk).processor_wait == 0.5, "nothing was processed"


def test_only_the_chunks_that_are_named_are_counted(
    session: Session, batch: Batch, customer: Customer
) -> None:
    other = make_batch(session, customer)
    chunks = [add_chunk(session, it, first, first) for it in (batch, other) for first in (1, 2, 3)]
    for it in (batch, other):
        add_lines(session, it, "VALID", "VALID", "VALID")
    counts.recount(session, batch.id, [1, 3])
    for chunk in chunks:
        session.refresh(chunk)
    assert [chunk.done for chunk in chunks] == [1, 0, 1, 0, 0, 0]
    counts.recount(session, batch.id)
    for chunk in chunks:
        session.refresh(chunk)
    assert [chunk.done for chunk in chunks] == [1, 1, 1, 0, 0, 0]


def test_lines_of_several_batches_are_summed_over_their_chunks(session: Session, customer: Customer) -> None:
    one, two, empty, unwanted = (make_batch(session, customer) for _ in range(4))
    add_chunk(session, one, 1, counts={"VALID": 2, "FAILED": 1})
    add_chunk(session, one, 10, counts={"VALID": 5})
    add_chunk(session, two, 1, counts={"VALID": 3})
    add_chunk(session, unwanted, 1, counts={"VALID": 9})
    assert counts.count_lines(session, [one.id, two.id, empty.id]) == {
        one.id: {"VALID": 7, "FAILED": 1},
        two.id: {"VALID": 3},
        empty.id: {},
    }


def test_progress_has_the_most_frequent_codes_first(
    session: Session, batch: Batch, customer: Customer
) -> None:
    add_chunk(
        session, batch, 1, counts={"VALID": 2}, error_counts={"b": 2, "a": 2, "c": 1}, warning_counts={"w": 1}
    )
    add_chunk(
        session, batch, 10, counts={"VALID": 5, "FAILED": 1}, error_counts={"c": 4}, warning_counts={"v": 2}
    )
    add_chunk(session, make_batch(session, customer), 1, counts={"VALID": 9})
    progress = counts.get_progress(session, batch)
    assert progress.counts == {"VALID": 7, "FAILED": 1}
    assert list(progress.error_counts.items()) == [("c", 5), ("a", 2), ("b", 2)]
    assert list(progress.warning_counts.items()) == [("v", 2), ("w", 1)]
    assert progress.rate is None


@pytest.mark.parametrize(("started", "rate"), [(100, 160 / 97.5), (2.5, 20 / 0.001), (1, None)])
@pytest.mark.parametrize("state", [BatchState.COMPLETED, BatchState.PAUSED])
def test_the_rate_of_a_batch_that_does_not_run_is_that_of_its_whole_run(
    session: Session, customer: Customer, batch: Batch, *, state: str, started: float, rate: float | None
) -> None:
    add_chunk(session, make_batch(session, customer), worked=1_000, worked_at=func.now())
    for first, (worked, ago) in enumerate([(100, 60), (30, 31), (10, 30), (20, 2.5), (0, None)], 1):
        worked_at = None if ago is None else func.now() - seconds(ago)
        add_chunk(session, batch, first, worked=worked, worked_at=worked_at)
    batch.state, batch.started_at = state, _now(session) - timedelta(seconds=started)
    session.flush()
    progress = counts.get_progress(session, batch)
    assert (progress.rate, progress.pace) == (None if rate is None else pytest.approx(rate), None)


def test_the_pace_is_measured_over_the_chunks_since_the_batch_was_started_or_retried(
    session: Session, customer: Customer, batch: Batch
) -> None:
    """A hundred lines every two seconds. What was before the retry, and another batch, do not count."""
    add_chunk(session, make_batch(session, customer), counts={"PENDING": 9}, worked=9, worked_at=func.now())
    for place in range(11):
        at = func.now() - seconds(2 * place)
        add_chunk(session, batch, place + 1, counts={"VALID": 100}, worked=100, worked_at=at)
    add_chunk(session, batch, 90, counts={"VALID": 900}, worked=900, worked_at=func.now() - seconds(21))
    add_chunk(session, batch, 91, counts={"PENDING": 1_000, "DEFERRED": 70}, worked=0, worked_at=None)
    batch.started_at = batch.created_at = _now(session) - timedelta(seconds=20)
    session.flush()
    progress = counts.get_progress(session, batch)
    assert progress.pace and progress.rate == pytest.approx(50)
    assert progress.pace.left == pytest.approx(20)
    assert progress.pace.low < 20 < progress.pace.high
    for state in (BatchState.PAUSED, BatchState.WAITING):
        batch.state = state
        assert counts.get_progress(session, batch).pace is None


def test_a_key_that_is_limited_sees_the_batches_of_its_suppliers(
    session: Session, customer: Customer, other: Customer
) -> None:
    batch: Batch = make_batch(session, customer)
    make_batch(session, other)
    limited = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({batch.import_supplier_id}))
    with acting_as(limited):
        assert [it.batch_id for it in list_batches(session, organisation_id=None)] == [batch.id]
        assert count_batches(session, organisation_id=None).batches == 1
    with acting_as(Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset())):
        assert list_batches(session, organisation_id=None) == []


def test_open_batches_are_those_that_need_somebody_or_are_worked_on(
    session: Session, customer: Customer
) -> None:
    for state in BatchState:
        make_batch(session, customer, state=state, reason="why")
    make_batch(session, customer, state=BatchState.PAUSED, reason="window_closed")
    found = list_batches(session, organisation_id=None, only_open=True)
    assert {it.state for it in found} == set(BatchState) - {"COMPLETED", "CANCELLED"}
    assert {it.reason for it in found} == {"why"}
    assert len(list_batches(session, organisation_id=None)) == len(BatchState) + 1
    # Running and waiting ones are processed; paused and stopped ones are held, unless a window opens again.
    assert count_batches(session, organisation_id=None) == BatchTotals(len(BatchState) + 1, 2, 2)
