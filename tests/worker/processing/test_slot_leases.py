"""Slots are waited for, restored from the database, and compared with the attempts that are in progress."""

from collections.abc import Iterator
from unittest.mock import patch
from uuid import UUID

import pytest
from redis import Redis
from sqlalchemy import update

from migration_service.connections import make_redis
from migration_service.db.base import new_id
from migration_service.errors import ServiceUnavailableError
from migration_service.models import BatchChunk
from migration_service.services.processing import slots as slots_module
from migration_service.services.processing.slots import (
    LiveAttempt,
    Slots,
    SlotsStaleError,
    acquire_slots,
    list_live_attempts,
    reconcile_slots,
)
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient

_STATE = "migration:slots:state"


@pytest.fixture
def no_redis() -> Iterator[Redis]:
    """A client of a Redis that nobody runs."""
    redis = make_redis("redis://127.0.0.1:1/0")
    yield redis
    redis.close()


def _begin(supplier: SupplierClient) -> UUID:
    (account,) = supplier.accounts()
    supplier.stage(account)
    assert supplier.process(account["external_account_number"]).status_code == 202
    return supplier.current_attempt(account["external_account_number"])


def test_slots_that_redis_lost_are_restored_before_another_one_is_acquired(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    running, redis = _begin(supplier), worker_resources.redis
    redis.delete("migration:slots", _STATE)
    redis.hset(_STATE, "admit_from", 0)
    attempt = new_id()
    sessions, slots = worker_resources.Session, worker_resources.slots
    owner = supplier.organisation_id()
    assert acquire_slots(sessions, slots, [attempt], owner=owner, limit=2) == [attempt]
    held = redis.zrange("migration:slots", 0, -1)
    assert set(held) == {str(running).encode(), str(attempt).encode()}


def test_without_slots_that_can_be_restored_the_service_is_unavailable(
    worker_resources: WorkerResources, no_redis: Redis
) -> None:
    sessions, redis = worker_resources.Session, worker_resources.redis
    redis.delete(_STATE)
    redis.hset(_STATE, "admit_from", redis.time()[0] * 1_000 + 1_000_000)
    with patch.object(slots_module, "RESTORE_TIMEOUT", 0.2), pytest.raises(ServiceUnavailableError):
        acquire_slots(sessions, worker_resources.slots, [new_id()], owner=1, limit=2)
    with pytest.raises(ServiceUnavailableError):
        acquire_slots(sessions, Slots(no_redis), [new_id()], owner=1, limit=2)

    class Lost(Slots):
        def acquire(self, *_args: object, **_limits: object) -> int:
            raise SlotsStaleError

    with pytest.raises(ServiceUnavailableError):
        acquire_slots(sessions, Lost(no_redis), [new_id()], owner=1, limit=2)


def test_attempts_of_requests_and_of_chunks_that_create_accounts_hold_slots(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    running, sessions = _begin(supplier), worker_resources.Session
    batches = BatchClient(supplier, worker_resources)
    accounts = supplier.accounts(2)
    attempts = {
        batches.start(accounts, mode): [new_id(), new_id()] for mode in ("import", "dry-run", "validate")
    }
    attempts[batches.start([{}], kind="notes")] = [new_id()]
    attempts[batches.start(accounts, "import")] = []
    batches.dispatch()
    with sessions.begin() as session:
        for batch_id, of_chunk in attempts.items():
            chunk = update(BatchChunk).where(BatchChunk.batch_id == UUID(batch_id))
            session.execute(chunk.values(attempts=of_chunk or None))
    created, rehearsed, *_ = attempts.values()
    owner = supplier.organisation_id()
    expected = [
        LiveAttempt(str(running), owner),
        *(LiveAttempt(str(it), owner, batch=True) for it in created + rehearsed),
    ]
    with sessions() as session:
        live = list_live_attempts(session)
        assert sorted(live, key=lambda it: it.id) == sorted(expected, key=lambda it: it.id)
        worker_resources.redis.delete("migration:slots", "migration:slots:owners")
        reconcile_slots(session, worker_resources.slots)
    owners = worker_resources.redis.hgetall("migration:slots:owners")
    assert owners == {
        str(it.id).encode(): f"{owner} {'batch' if it.batch else 'request'}".encode() for it in expected
    }
    assert worker_resources.slots.in_use() == 5
