"""What an organisation may have at once: uploads, batches under way, bytes of lines."""

from typing import Any

import pytest
from redis import Redis
from sqlalchemy import func
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import BatchStorageQuotaError, TooManyUploadsError
from migration_service.services.batches.intake.quotas import (
    BatchQuotas,
    lease_upload,
    lock_storing,
    require_room,
)
from support.factories import Customer, make_customer
from unit.services.batches.batch_rows import make_batch

_OWN, _OTHER = 7, 8
_KEY = f"migration:uploads:{_OWN}"


def _now_ms(redis: Any) -> float:
    seconds, microseconds = redis.time()
    return float(seconds * 1_000 + microseconds / 1_000)


def test_an_organisation_has_as_many_uploads_as_it_may_and_others_have_theirs(redis: Any) -> None:
    with lease_upload(redis, _OWN, 2), lease_upload(redis, _OTHER, 1):
        with lease_upload(redis, _OWN, 2):
            with (
                pytest.raises(TooManyUploadsError, match="2 files at the same time"),
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
        with pytest.raises(TooManyUploadsError), lease_upload(redis, _OWN, 1):
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
        with pytest.raises(BatchStorageQuotaError):
            require_room(session, own, BatchQuotas(open_batches=9, stored_bytes=0), 1)
        make_batch(session, customer, stored_bytes=100)
        make_batch(session, customer, stored_bytes=1_000, finished_at=func.now())
        make_batch(session, customer, stored_bytes=10_000, lines_removed_at=func.now())
        make_batch(session, other, stored_bytes=50_000)
        quotas_of = BatchQuotas(open_batches=9, stored_bytes=1_200)
        require_room(session, own, quotas_of)
        require_room(session, own, quotas_of, 100)
        with pytest.raises(BatchStorageQuotaError, match="may take 1,200 bytes"):
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
