"""How a file is taken in: on disk, within the quotas, and when its turn has come."""

import errno
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import pytest
from redis import Redis
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits, Line
from migration_service import errors
from migration_service.models import Batch
from migration_service.services.batches.intake import quotas, storing
from migration_service.services.batches.intake import spool as spool_module
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.quotas import (
    BatchQuotas,
    lease_upload,
    lock_storing,
    require_room,
)
from migration_service.services.batches.intake.spool import has_room, spool
from migration_service.services.batches.intake.storing import IntakeLimits, store_batch, take_in_batch
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchMode, BatchSource
from support.factories import Customer, make_customer
from support.rows import find_supplier, make_batch
from unit.services.undo.undo_rows import add_pending

_LIMITS = FileLimits(line=20, total=100_000_000)


def _hash(*blocks: bytes, identity: bytes = b"i") -> bytes:
    with spool(blocks, _LIMITS, identity=identity) as lines:
        return lines.sha256


def test_lines_are_counted_with_their_rows_and_can_be_read_again() -> None:
    blocks = [b'{}\n\n{"a"', b":1}\n" + b"x" * 21 + b"\n"]
    with spool(blocks, _LIMITS, identity=b"") as lines:
        assert (lines.count, lines.stored_bytes) == (3, 3 * 200 + 2 + 7)
        for _ in range(2):
            assert list(lines) == [Line(1, b"{}"), Line(3, b'{"a":1}'), Line(4, None, b"x" * 21)]


def test_the_hash_is_that_of_the_lines_and_of_what_is_asked_for() -> None:
    same = {_hash(b"{}\n[]\n"), _hash(b"{}", b"\n[]")}
    others = {
        _hash(b"{}\n[]", identity=b"j"),
        _hash(b"{}\n\n[]"),
        _hash(b"{}\n[1]"),
        _hash(b"{}\n" + b"x" * 21),
        _hash(b"{}"),
    }
    assert len(same) == 1
    assert len(others - same) == 5


@pytest.mark.parametrize("blocks", [[], [b""], [b"\n", b" \n"]])
def test_a_file_without_lines_is_refused(blocks: list[bytes]) -> None:
    with pytest.raises(errors.BatchFileError, match="no lines"), spool(blocks, _LIMITS, identity=b""):
        pass


def test_a_file_that_is_one_json_string_is_refused_but_a_later_string_is_a_line() -> None:
    with (
        pytest.raises(errors.BatchFileError, match="one JSON string"),
        spool([b'\n"{}"'], _LIMITS, identity=b""),
    ):
        pass
    for first in (b"{}", b"x" * 21):
        with spool([first, b'\n"{}"'], _LIMITS, identity=b"") as lines:
            assert lines.count == 2


def test_the_file_is_in_the_given_folder(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with (
        patch.object(spool_module, "has_room", return_value=True),
        pytest.raises(FileNotFoundError),
        spool([b"{}"], _LIMITS, identity=b"", folder=missing),
    ):
        pass


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, errors.UploadStorageFullError),
        (errno.EDQUOT, errors.UploadStorageFullError),
        (errno.EFBIG, errors.UploadStorageFullError),
        (errno.EIO, OSError),
    ],
)
def test_a_disk_that_is_full_while_the_file_is_written_is_no_failure(
    number: int, expected: type[Exception]
) -> None:
    file = Mock()
    file.write.side_effect = OSError(number, os.strerror(number))
    opened = Mock(__enter__=Mock(return_value=file), __exit__=Mock(return_value=None))
    with (
        patch.object(spool_module, "TemporaryFile", return_value=opened),
        pytest.raises(expected),
        spool([b"{}"], _LIMITS, identity=b""),
    ):
        pass


@pytest.mark.parametrize(("free", "expected"), [(4, False), (5, True), (100, True)])
def test_uploads_leave_a_twentieth_of_the_disk_free(tmp_path: Path, free: int, *, expected: bool) -> None:
    usage: Any = SimpleNamespace(total=100, free=free)
    with patch("shutil.disk_usage", return_value=usage) as asked:
        assert has_room(tmp_path) is expected
    asked.assert_called_once_with(tmp_path)


_OWN, _OTHER = 7, 8
_KEY = f"migration:uploads:{_OWN}"


def _now_ms(redis: Any) -> float:
    seconds, microseconds = redis.time()
    return float(seconds * 1_000 + microseconds / 1_000)


def test_an_organisation_has_as_many_uploads_as_it_may_and_others_have_theirs(redis: Any) -> None:
    with lease_upload(redis, _OWN, 2), lease_upload(redis, _OTHER, 1):
        with lease_upload(redis, _OWN, 2):
            with (
                pytest.raises(errors.TooManyUploadsError, match="2 files at the same time"),
                lease_upload(redis, _OWN, 2),
            ):
                pass
            with lease_upload(redis, _OWN, 3):
                assert redis.zcard(_KEY) == 3
            assert redis.zcard(_KEY) == 2
        with lease_upload(redis, _OWN, 2):
            pass
    assert not redis.exists(_KEY)


def test_a_lease_ends_two_minutes_after_it_was_renewed(redis: Any) -> None:
    with lease_upload(redis, _OWN, 1):
        [(lease, until)] = redis.zrange(_KEY, 0, -1, withscores=True)
        assert 60_000 < until - _now_ms(redis) <= 120_000
        assert 60_000 < redis.pttl(_KEY) <= 120_000
        # As if it had not been renewed.
        redis.zadd(_KEY, {lease: _now_ms(redis) + 60_000})
        with pytest.raises(errors.TooManyUploadsError), lease_upload(redis, _OWN, 1):
            pass
        redis.zadd(_KEY, {lease: _now_ms(redis) - 1})
        with lease_upload(redis, _OWN, 1):
            assert redis.zscore(_KEY, lease) is None


def test_uploads_are_not_counted_while_redis_is_unavailable() -> None:
    nowhere = Redis.from_url("redis://127.0.0.1:1/0")
    with lease_upload(nowhere, _OWN, 0) as renew:
        renew()


def test_bytes_of_lines_count_until_they_are_removed(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    other, own = make_customer(sessions), customer.organisation_id
    with sessions() as session:
        require_room(session, own, BatchQuotas(open_batches=9, stored_bytes=0))
        with pytest.raises(errors.BatchStorageQuotaError):
            require_room(session, own, BatchQuotas(open_batches=9, stored_bytes=0), 1)
        make_batch(session, customer, stored_bytes=100)
        make_batch(session, customer, stored_bytes=1_000, finished_at=func.now())
        make_batch(session, customer, stored_bytes=10_000, lines_removed_at=func.now())
        make_batch(session, other, stored_bytes=50_000)
        quotas_of = BatchQuotas(open_batches=9, stored_bytes=1_200)
        require_room(session, own, quotas_of)
        require_room(session, own, quotas_of, 100)
        with pytest.raises(errors.BatchStorageQuotaError, match="may take 1,200 bytes"):
            require_room(session, own, quotas_of, 101)
        session.rollback()


def test_one_session_stores_a_batch_of_an_organisation_at_a_time(sessions: sessionmaker[Session]) -> None:
    with sessions() as one, sessions() as two:
        assert lock_storing(one, _OWN)
        assert not lock_storing(two, _OWN)
        assert lock_storing(two, _OTHER)
        one.rollback()
        assert lock_storing(two, _OWN)
        two.rollback()


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
    with pytest.raises(errors.TooManyOpenBatchesError):
        take_in_batch(sessions, supplier, another, _unread(), redis=redis, limits=_limits())
    with pytest.raises(errors.BatchStorageQuotaError):
        take_in_batch(sessions, supplier, another, _unread(), redis=redis, limits=_limits(2, 403))
    for stored_bytes in (404, 605):
        blocks = iter([b"{}"])
        with pytest.raises(errors.BatchStorageQuotaError):
            take_in_batch(sessions, supplier, another, blocks, redis=redis, limits=_limits(2, stored_bytes))
        assert list(blocks) == [], "it was read to its end"
    none = replace(_limits(2), uploads=0)
    with pytest.raises(errors.TooManyUploadsError, match="may send 0 files"):
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
    batch_id = store_batch(sessions, supplier, order, _limits(1, 0))
    with sessions() as session:
        assert session.get_one(Batch, batch_id).lines == 2
    with pytest.raises(errors.TooManyOpenBatchesError):
        store_batch(sessions, supplier, order, _limits())
    assert _batches(sessions) == 1


@pytest.mark.parametrize("pauses", [2, None])
def test_a_file_waits_until_another_one_is_stored_but_not_for_ever(
    sessions: sessionmaker[Session], supplier: KnownSupplier, redis: Redis, pauses: int | None
) -> None:
    clock, key = Mock(wraps=time), f"migration:uploads:{supplier.organisation_id}"
    clock.monotonic = Mock(side_effect=[0.0, 0.0, 450.0, 899.75, 900.0])
    with sessions() as another, patch.object(storing, "time", clock), patch.object(quotas, "RENEWAL", -1.0):
        assert lock_storing(another, supplier.organisation_id)

        def pause(_seconds: float) -> None:
            assert redis.delete(key), "its lease was renewed"
            if clock.sleep.call_count == pauses:
                another.rollback()

        clock.sleep = Mock(side_effect=pause)
        if pauses:
            assert take_in_batch(sessions, supplier, _ORDER, [b"{}"], redis=redis, limits=_limits())
        else:
            with pytest.raises(errors.TooManyUploadsError):
                take_in_batch(sessions, supplier, _ORDER, [b"{}"], redis=redis, limits=_limits())
    assert [it.args for it in clock.sleep.mock_calls] == [(0.25,)] * (pauses or 3)
    assert _batches(sessions) == (1 if pauses else 0)
