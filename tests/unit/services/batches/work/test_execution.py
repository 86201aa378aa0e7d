"""How a worker goes through a chunk: with the slots that are free, and until its time is up."""

import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock, call, patch

import pytest
from redis import Redis
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.connections import make_redis
from migration_service.db.base import new_id
from migration_service.models import AccountImportProcess, BatchChunk, ServiceLimit
from migration_service.services.batches.work import execution
from migration_service.services.batches.work.chunks import ChunkKey, work_on_chunk
from migration_service.services.batches.work.execution import REDIS_PAUSE, TURN_SECONDS, perform_chunk
from migration_service.services.processing import slots as slots_module
from migration_service.services.processing.slots import Slots
from support.factories import Customer
from unit.services.batches.batch_rows import chunk_of, codes_of, make_chunk, payload_of, seconds
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
        return make_chunk(session, customer, [payload_of(customer, str(it)) for it in range(lines)])


def _statuses(sessions: sessionmaker[Session], key: ChunkKey) -> list[str]:
    with sessions() as session:
        return [status for status, _ in codes_of(session, key)]


@pytest.mark.parametrize(("limit", "expected"), [(None, [3]), (52, [2, 1]), (3, [1, 1, 1])])
def test_a_worker_takes_as_many_lines_as_it_has_slots_and_leaves_the_reserve(
    sessions: sessionmaker[Session],
    customer: Customer,
    slots: Slots,
    limit: int | None,
    expected: list[int],
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
        chunk = chunk_of(session, key)
        assert chunk.throttled_at is None, "nobody had dispatched it"
    with sessions.begin() as session:
        session.execute(update(BatchChunk).values(state="DISPATCHED"))
    assert not perform_chunk(sessions, slots, key, reserve=0)
    with sessions() as session:
        chunk = chunk_of(session, key)
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
        chunk = chunk_of(session, key)
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
        key = make_chunk(session, customer, [line | {"notes": [{"body": "x"}]}], kind="notes")
    assert perform_chunk(sessions, slots, key, reserve=0)
    assert _statuses(sessions, key) == ["DEFERRED"]
    with sessions.begin() as session:
        earlier = BatchChunk.deferred_since - seconds(60)
        session.execute(update(BatchChunk).values(not_before=None, deferred_since=earlier))
    with patch.object(slots, "release") as release:
        assert perform_chunk(sessions, slots, key, reserve=0, longest_deferral=longest)
    release.assert_not_called()
    assert _statuses(sessions, key) == [status]
