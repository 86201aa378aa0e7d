"""The counts of chunks and batches, the rate, and what a chunk becomes when its lines are counted."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, null, select
from sqlalchemy.orm import Session

from factories import Customer
from migration_service.db.base import new_id
from migration_service.models import Batch, BatchChunk, BatchLine
from migration_service.services.batches.counts import (
    count_lines,
    count_open,
    get_progress,
    read_idle_seconds,
    recount,
)
from migration_service.states import BatchState, ChunkState
from unit.services.batches.batch_rows import add_chunk, add_lines, make_batch, seconds

_CODE_A, _CODE_B = {"code": "a"}, {"code": "b"}


@pytest.fixture
def batch(session: Session, customer: Customer) -> Batch:
    return make_batch(session, customer)


def _now(session: Session) -> datetime:
    return session.execute(select(func.now())).scalar_one()


def _recounted(session: Session, chunk: BatchChunk, **given: Any) -> BatchChunk:
    recount(session, chunk.batch_id, **given)
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
    assert (chunk.done, chunk.state) == (6, ChunkState.DONE)


def test_a_chunk_without_lines_is_done(session: Session, batch: Batch) -> None:
    chunk = _recounted(session, add_chunk(session, batch))
    assert (chunk.counts, chunk.error_counts, chunk.warning_counts, chunk.failures) == ({}, {}, {}, {})
    assert (chunk.done, chunk.state, chunk.finished_at) == (0, ChunkState.DONE, _now(session))


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


@pytest.mark.parametrize(("tries", "left"), [(0, 0), (1, 0), (2, 1), (5, 1)])
def test_a_chunk_is_released_and_its_deaths_are_nearly_forgotten(
    session: Session, batch: Batch, tries: int, left: int
) -> None:
    chunk = _recounted(session, add_chunk(session, batch, tries=tries, attempts=[new_id()]))
    assert (chunk.tries, chunk.attempts, chunk.dispatched_at) == (left, None, _now(session))


def test_work_is_added_up_and_ends_a_throttle(session: Session, batch: Batch) -> None:
    earlier = _now(session) - timedelta(minutes=1)
    given: dict[str, Any] = {"worked": 7, "refused": 3, "worked_at": earlier, "throttled_at": earlier}
    chunk = add_chunk(session, batch, state=ChunkState.DISPATCHED, **given)
    add_lines(session, batch, "PENDING")
    _recounted(session, chunk)
    assert (chunk.worked, chunk.refused, chunk.worked_at, chunk.throttled_at) == (7, 3, earlier, earlier)
    _recounted(session, chunk, worked=5, refused=2)
    assert (chunk.worked, chunk.refused, chunk.worked_at, chunk.throttled_at) == (12, 5, _now(session), None)


def test_the_work_of_a_chunk_that_is_done_begins_anew(session: Session, batch: Batch) -> None:
    chunk = add_chunk(session, batch, state=ChunkState.DONE, worked=7)
    add_lines(session, batch, "PENDING")
    assert _recounted(session, chunk).worked == 0


def test_only_the_chunks_that_are_named_are_counted(
    session: Session, batch: Batch, customer: Customer
) -> None:
    other = make_batch(session, customer)
    chunks = [add_chunk(session, it, first, first) for it in (batch, other) for first in (1, 2, 3)]
    for it in (batch, other):
        add_lines(session, it, "VALID", "VALID", "VALID")
    recount(session, batch.id, [1, 3])
    for chunk in chunks:
        session.refresh(chunk)
    assert [chunk.done for chunk in chunks] == [1, 0, 1, 0, 0, 0]
    recount(session, batch.id)
    for chunk in chunks:
        session.refresh(chunk)
    assert [chunk.done for chunk in chunks] == [1, 1, 1, 0, 0, 0]


def test_open_lines_are_those_without_an_outcome() -> None:
    assert count_open({"PENDING": 2, "DEFERRED": 3, "VALID": 5, "FAILED": 7}) == 5
    assert count_open({}) == 0


def test_lines_of_several_batches_are_summed_over_their_chunks(session: Session, customer: Customer) -> None:
    one, two, empty, unwanted = (make_batch(session, customer) for _ in range(4))
    add_chunk(session, one, 1, counts={"VALID": 2, "FAILED": 1})
    add_chunk(session, one, 10, counts={"VALID": 5})
    add_chunk(session, two, 1, counts={"VALID": 3})
    add_chunk(session, unwanted, 1, counts={"VALID": 9})
    assert count_lines(session, [one.id, two.id, empty.id]) == {
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
    progress = get_progress(session, batch.id, started_at=None, finished_at=None)
    assert progress.counts == {"VALID": 7, "FAILED": 1}
    assert list(progress.error_counts.items()) == [("c", 5), ("a", 2), ("b", 2)]
    assert list(progress.warning_counts.items()) == [("v", 2), ("w", 1)]
    assert progress.rate is None


def test_a_batch_without_chunks_has_no_progress(session: Session, batch: Batch) -> None:
    progress = get_progress(session, batch.id, started_at=_now(session), finished_at=None)
    assert (progress.counts, progress.error_counts, progress.warning_counts) == ({}, {}, {})
    assert (progress.rate, progress.idle_seconds, progress.is_throttled) == (None, None, False)


@pytest.mark.parametrize(
    ("started", "finished", "rate"),
    [
        (100, None, 30 / 30),  # the chunks of the last thirty seconds
        (10, None, 20 / 10),
        (100, 20, 160 / 80),
        (100, 0, 160 / 100),
        (40, 0, 60 / 40),
        (1, None, None),
        (2.5, 2.5, 20 / 0.001),
    ],
)
def test_the_rate_is_recent_while_a_batch_runs_and_the_average_once_it_is_over(
    session: Session, batch: Batch, started: float, finished: float | None, rate: float | None
) -> None:
    other = Batch(
        id=new_id(),
        organisation_id=batch.organisation_id,
        import_supplier_id=batch.import_supplier_id,
        mode="validate",
        source="upload",
    )
    session.add(other)
    session.flush()
    add_chunk(session, other, worked=1_000, finished_at=func.now())
    for first, (worked, ago) in enumerate([(100, 60), (30, 31), (10, 30), (20, 2.5), (40, None)], 1):
        finished_at = None if ago is None else func.now() - seconds(ago)
        add_chunk(session, batch, first, worked=worked, finished_at=finished_at)
    now = _now(session)
    progress = get_progress(
        session,
        batch.id,
        started_at=now - timedelta(seconds=started),
        finished_at=None if finished is None else now - timedelta(seconds=finished),
    )
    assert progress.rate == (None if rate is None else pytest.approx(rate))


@pytest.mark.parametrize(
    ("worked", "created", "idle"), [((50, 20, None), 90, 20), ((50, 60), 30, 30), ((None,), 70, 70)]
)
def test_a_batch_is_idle_since_lines_were_worked_on_or_it_was_started(
    session: Session, customer: Customer, worked: tuple[int | None, ...], created: int, idle: int
) -> None:
    batch = make_batch(session, customer, created_at=func.now() - seconds(created))
    other = make_batch(session, customer)
    for first, ago in enumerate(worked, 1):
        add_chunk(session, batch, first, worked_at=None if ago is None else func.now() - seconds(ago))
    add_chunk(session, other, worked_at=func.now(), throttled_at=func.now())
    progress = get_progress(session, batch.id, started_at=None, finished_at=None)
    assert (progress.idle_seconds, progress.is_throttled) == (idle, False)
    assert read_idle_seconds(session, [batch.id]) == {batch.id: idle}


@pytest.mark.parametrize(("throttled", "expected"), [((29, 90), True), ((90, 31), False), ((None, 3), True)])
def test_a_batch_is_throttled_for_half_a_minute(
    session: Session, batch: Batch, throttled: tuple[int | None, ...], *, expected: bool
) -> None:
    for first, ago in enumerate(throttled, 1):
        add_chunk(session, batch, first, throttled_at=None if ago is None else func.now() - seconds(ago))
    assert get_progress(session, batch.id, started_at=None, finished_at=None).is_throttled is expected


def test_only_a_running_batch_with_pending_lines_is_idle(session: Session, customer: Customer) -> None:
    def make(state: BatchState, *chunks: ChunkState) -> Batch:
        batch = make_batch(session, customer, state=state, created_at=func.now() - seconds(9))
        for first, chunk in enumerate(chunks, 1):
            add_chunk(session, batch, first, state=chunk)
        return batch

    running = make(BatchState.RUNNING, ChunkState.DONE, ChunkState.DISPATCHED)
    pending = make(BatchState.RUNNING, ChunkState.PENDING)
    others = [
        make(BatchState.RUNNING, ChunkState.DONE),
        make(BatchState.RUNNING),
        make(BatchState.PAUSED, ChunkState.PENDING),
        make(BatchState.WAITING, ChunkState.PENDING),
    ]
    make(BatchState.RUNNING, ChunkState.PENDING)
    found = read_idle_seconds(session, [it.id for it in (running, pending, *others)])
    assert found == {running.id: 9, pending.id: 9}
