"""How a file is taken in: refused before it is read, and stored when its turn has come."""

import time
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import Mock, patch

import pytest
from redis import Redis
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits
from migration_service.errors import (
    BatchStorageQuotaError,
    TooManyOpenBatchesError,
    TooManyUploadsError,
)
from migration_service.models import Batch
from migration_service.services.batches.intake import quotas, storing
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.quotas import BatchQuotas, lock_storing
from migration_service.services.batches.intake.storing import IntakeLimits, take_in_batch, take_in_pending
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchMode, BatchSource
from support.factories import Customer
from unit.services.batches.batch_rows import find_supplier
from unit.services.undo.undo_rows import add_pending

_ORDER = BatchOrder(mode=BatchMode.VALIDATE, idempotency_key="key-1")


@pytest.fixture
def supplier(sessions: sessionmaker[Session], customer: Customer) -> KnownSupplier:
    with sessions() as session:
        return find_supplier(session, customer)


def _limits(batches: int = 1, stored_bytes: int = 10_000) -> IntakeLimits:
    most = BatchQuotas(open_batches=batches, stored_bytes=stored_bytes)
    return IntakeLimits(file=FileLimits(line=100, total=1_000), quotas=most, uploads=1)


def _unread() -> Iterator[bytes]:
    """Return blocks that cannot be read."""
    return iter(Mock(side_effect=AssertionError), None)


def _batches(sessions: sessionmaker[Session]) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(Batch)) or 0


def test_a_file_is_refused_before_it_is_read_unless_its_batch_exists(
    sessions: sessionmaker[Session], supplier: KnownSupplier, redis: Redis
) -> None:
    first = take_in_batch(sessions, supplier, _ORDER, [b"{}\n", b"{}"], redis=redis, limits=_limits())
    with sessions() as session:
        batch = session.get_one(Batch, first)
        assert (batch.lines, batch.stored_bytes) == (2, 404)
    again = take_in_batch(sessions, supplier, _ORDER, [b"{}\n{}\n"], redis=redis, limits=_limits())
    assert again == first
    another = BatchOrder(mode=BatchMode.VALIDATE)
    with pytest.raises(TooManyOpenBatchesError):
        take_in_batch(sessions, supplier, another, _unread(), redis=redis, limits=_limits())
    with pytest.raises(BatchStorageQuotaError):
        take_in_batch(sessions, supplier, another, _unread(), redis=redis, limits=_limits(2, 403))
    for stored_bytes in (404, 605):
        blocks = iter([b"{}"])
        with pytest.raises(BatchStorageQuotaError):
            take_in_batch(sessions, supplier, another, blocks, redis=redis, limits=_limits(2, stored_bytes))
        assert list(blocks) == [], "it was read to its end"
    none = replace(_limits(2), uploads=0)
    with pytest.raises(TooManyUploadsError, match="may send 0 files"):
        take_in_batch(sessions, supplier, another, _unread(), redis=redis, limits=none)
    assert take_in_batch(sessions, supplier, another, [b"{}"], redis=redis, limits=_limits(2, 606))
    assert _batches(sessions) == 2


def test_what_is_pending_is_taken_in_within_the_quotas(
    sessions: sessionmaker[Session], customer: Customer, supplier: KnownSupplier
) -> None:
    with sessions.begin() as session:
        add_pending(session, customer, "a", "b")
    order = BatchOrder(
        mode=BatchMode.IMPORT, source=BatchSource.PENDING, operations_team_name=customer.operations_team
    )
    batch_id = take_in_pending(sessions, supplier, order, _limits(1, 0))
    with sessions() as session:
        assert session.get_one(Batch, batch_id).lines == 2
    with pytest.raises(TooManyOpenBatchesError):
        take_in_pending(sessions, supplier, order, _limits())
    assert _batches(sessions) == 1


@pytest.mark.parametrize("pauses", [2, None])
def test_a_file_waits_until_another_one_is_stored_but_not_for_ever(
    sessions: sessionmaker[Session], supplier: KnownSupplier, redis: Redis, pauses: int | None
) -> None:
    clock, key = Mock(wraps=time), f"migration:uploads:{supplier.organisation_id}"
    clock.monotonic = Mock(side_effect=[0.0, 0.0, 450.0, 899.75, 900.0])
    with (
        sessions() as another,
        patch.object(storing, "time", clock),
        patch.object(quotas, "RENEWAL", -1.0),
    ):
        assert lock_storing(another, supplier.organisation_id)

        def pause(_seconds: float) -> None:
            assert redis.delete(key), "its lease was renewed"
            if clock.sleep.call_count == pauses:
                another.rollback()

        clock.sleep = Mock(side_effect=pause)
        if pauses:
            assert take_in_batch(sessions, supplier, _ORDER, [b"{}"], redis=redis, limits=_limits())
        else:
            with pytest.raises(TooManyUploadsError):
                take_in_batch(sessions, supplier, _ORDER, [b"{}"], redis=redis, limits=_limits())
    assert [it.args for it in clock.sleep.mock_calls] == [(0.25,)] * (pauses or 3)
    assert _batches(sessions) == (1 if pauses else 0)
