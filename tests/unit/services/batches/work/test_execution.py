"""How a worker goes through chunks of either kind, and when errors pause the batch."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call, patch

import pytest
from redis import Redis
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import Line
from migration_service.connections import make_redis
from migration_service.db.base import new_id
from migration_service.errors import BatchStateError
from migration_service.models import AccountImportProcess, Batch, BatchChunk, ServiceLimit
from migration_service.services.batches.error_thresholds import (
    NO_THRESHOLD,
    ErrorThreshold,
    ThresholdCounts,
    count_codes,
    measure,
    set_threshold,
)
from migration_service.services.batches.intake.ranges import AccountChunks
from migration_service.services.batches.work import execution
from migration_service.services.batches.work.chunks import ChunkKey, work_on_chunk
from migration_service.services.batches.work.execution import REDIS_PAUSE, TURN_SECONDS, perform_chunk
from migration_service.services.processing import slots as slots_module
from migration_service.services.processing.slots import Slots
from migration_service.states import BatchState
from support.audit import list_entries
from support.factories import Customer
from support.rows import add_chunk, make_batch
from unit.services.batches import batch_rows
from unit.services.undo.undo_rows import add_account


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    client = make_redis(redis_url.rsplit("/", 1)[0] + "/5", max_connections=5)
    client.flushdb()
    yield client
    client.close()


@pytest.fixture
def slots(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> Slots:
    monkeypatch.setattr(slots_module, "SETTLE_MS", 0)
    monkeypatch.setattr(execution, "REDIS_PAUSE", 0.01)
    slots = Slots(redis)
    slots.reconcile([])
    return slots


def _make(sessions: sessionmaker[Session], customer: Customer, limit: int | None, lines: int) -> ChunkKey:
    with sessions.begin() as session:
        session.execute(update(ServiceLimit).values(concurrency_limit=limit))
        return batch_rows.make_chunk(
            session, customer, [batch_rows.payload_of(customer, str(it)) for it in range(lines)]
        )


def _statuses(sessions: sessionmaker[Session], key: ChunkKey) -> list[str]:
    with sessions() as session:
        return [status for status, _ in batch_rows.codes_of(session, key)]


@pytest.mark.parametrize(("limit", "expected"), [(None, [3]), (52, [2, 1]), (3, [1, 1, 1])])
def test_a_worker_takes_as_many_lines_as_it_has_slots_and_leaves_the_reserve(
    sessions: sessionmaker[Session], customer: Customer, slots: Slots, limit: int | None, expected: list[int]
) -> None:
    key = _make(sessions, customer, limit, lines=3)
    held = []

    def watched(*args: Any, **options: Any) -> int | None:
        held.append(slots.in_use())
        return work_on_chunk(*args, **options)

    with patch.multiple(execution, work_on_chunk=watched, TURN_SECONDS=60.0):
        assert perform_chunk(sessions, slots, key, reserve=50)
    assert (held, slots.in_use()) == (expected, 0)
    assert _statuses(sessions, key) == ["IMPORTED"] * 3


def test_without_a_free_slot_the_chunk_is_released(
    sessions: sessionmaker[Session], customer: Customer, slots: Slots
) -> None:
    key = _make(sessions, customer, 2, lines=1)
    slots.acquire(["one", "another"], owner=customer.organisation_id, limit=2)
    assert not perform_chunk(sessions, slots, key, reserve=0)
    assert _statuses(sessions, key) == ["PENDING"]
    with sessions() as session:
        chunk = batch_rows.chunk_of(session, key)
        assert chunk.throttled_at is None, "nobody had dispatched it"
    with sessions.begin() as session:
        session.execute(update(BatchChunk).values(state="DISPATCHED"))
    assert not perform_chunk(sessions, slots, key, reserve=0)
    with sessions() as session:
        chunk = batch_rows.chunk_of(session, key)
        assert (chunk.state, chunk.throttled_at is not None) == ("PENDING", True)
    assert slots.in_use() == 2


def test_without_redis_a_worker_pauses_and_the_chunk_is_released(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    key = _make(sessions, customer, 2, lines=1)
    redis = make_redis("redis://127.0.0.1:1/0", max_connections=1)
    with patch.object(execution, "time", Mock(wraps=time)) as clock:
        clock.sleep = Mock()
        assert not perform_chunk(sessions, Slots(redis), key, reserve=0)
    redis.close()
    assert clock.sleep.mock_calls == [call(REDIS_PAUSE)]
    assert _statuses(sessions, key) == ["PENDING"]


def test_after_its_time_a_worker_releases_the_chunk_for_others(
    sessions: sessionmaker[Session], customer: Customer, slots: Slots
) -> None:
    key = _make(sessions, customer, 1, lines=2)
    with sessions.begin() as session:
        session.execute(update(BatchChunk).values(state="DISPATCHED"))
    moments = iter([100.0, 100.0, 100.0 + TURN_SECONDS])
    with patch.object(execution, "time", Mock(monotonic=lambda: next(moments))):
        assert not perform_chunk(sessions, slots, key, reserve=0)
    assert _statuses(sessions, key) == ["IMPORTED", "PENDING"]
    with sessions() as session:
        chunk = batch_rows.chunk_of(session, key)
        assert (chunk.state, chunk.throttled_at) == ("PENDING", None)


@pytest.mark.parametrize(("longest", "status"), [(3600.0, "DEFERRED"), (0.0, "FAILED")])
def test_added_data_needs_no_slots_and_waits_as_long_as_it_may(
    sessions: sessionmaker[Session], customer: Customer, slots: Slots, longest: float, status: str
) -> None:
    with sessions.begin() as session:
        account = add_account(session, customer, "a")
        account.external_account_number = "another"
        being_created = {"state": "IN_PROGRESS", "attempt_id": new_id()}
        session.execute(update(AccountImportProcess).values(being_created))
        line = {"import_supplier": customer.import_supplier, "external_account_number": "a"}
        key = batch_rows.make_chunk(session, customer, [line | {"notes": [{"body": "x"}]}], kind="notes")
    assert perform_chunk(sessions, slots, key, reserve=0)
    assert _statuses(sessions, key) == ["DEFERRED"]
    with sessions.begin() as session:
        earlier = BatchChunk.deferred_since - batch_rows.seconds(60)
        session.execute(update(BatchChunk).values(not_before=None, deferred_since=earlier))
    with patch.object(slots, "release") as release:
        assert perform_chunk(sessions, slots, key, reserve=0, longest_deferral=longest)
    release.assert_not_called()
    assert _statuses(sessions, key) == [status]


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


def _chunks(lines: int, stored_bytes: int = 0) -> AccountChunks:
    spooled: Any = SimpleNamespace(count=lines, stored_bytes=stored_bytes)
    return AccountChunks(spooled, 100)


def _add(chunks: AccountChunks, *numbers: str | None) -> list[int]:
    return [chunks.add(Line(i, b"{}"), number) for i, number in enumerate(numbers, 1)]


def test_a_short_file_is_one_chunk() -> None:
    chunks = _chunks(199)
    assert set(_add(chunks, *map(str, range(199)))) == {1}
    assert chunks.ranges == [(1, 199)]


@pytest.mark.parametrize(("lines", "stored_bytes"), [(200, 0), (10, 2_000_000), (200, 2_999_999)])
def test_a_longer_file_has_a_chunk_for_so_many_lines_or_bytes(lines: int, stored_bytes: int) -> None:
    chunks = _chunks(lines, stored_bytes)
    found = _add(chunks, *map(str, range(100)))
    assert len(set(found)) == len(chunks.ranges) == 2
    assert {first for first, _ in chunks.ranges} == set(found)
    assert {last for _, last in chunks.ranges} >= {100}


def test_all_lines_of_an_account_are_in_one_chunk() -> None:
    chunks = _chunks(1_000)
    found = _add(chunks, *["A", "B", "C", "D", "E", "F"] * 3)
    assert found[:6] == found[6:12] == found[12:]
    assert len(set(found)) > 1


def test_lines_without_an_account_are_in_any_chunk() -> None:
    """Otherwise those of a file that is not what it should be would all be in one."""
    assert len(set(_add(_chunks(1_000), *[None] * 100))) > 5
