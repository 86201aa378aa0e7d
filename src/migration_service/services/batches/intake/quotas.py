"""Quotas of an organisation: simultaneous uploads, open batches and stored bytes of lines.

Uploads are leases in Redis, because the process that holds one may be killed. While Redis is unavailable
uploads are not counted, but the size of each remains limited. PostgreSQL counts the other two quotas.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from redis import Redis
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service.connections import log_if_unavailable
from migration_service.errors import BatchStorageQuotaError, TooManyOpenBatchesError, TooManyUploadsError
from migration_service.models import Batch

#: Milliseconds after which the upload of a killed process no longer counts.
LEASE_MS = 120_000
#: Seconds after which a running upload renews its lease.
RENEWAL = 15.0
#: The first number of PostgreSQL's advisory locks on organisations that store a batch.
_STORING = 7_214

# Acquires or renews a lease. Returns 1, or 0 if the organisation has reached its limit.
_LEASE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""


@dataclass(frozen=True, slots=True)
class BatchQuotas:
    """The quotas of each organisation."""

    open_batches: int
    stored_bytes: int


@contextmanager
def lease_upload(redis: Redis, organisation_id: int, most: int) -> Iterator[Callable[[], None]]:
    """Count an upload until the end of the block. Yield a function that renews its lease when renewal is due.

    Raise TooManyUploadsError if the organisation already has `most` uploads.
    """
    key, lease = f"migration:uploads:{organisation_id}", uuid4().hex
    renewed_at = time.monotonic()

    def take() -> bool:
        taken = True
        with log_if_unavailable("uploads are not counted"):
            taken = bool(redis.eval(_LEASE, 1, key, lease, str(most), str(LEASE_MS)))
        return taken

    def renew() -> None:
        nonlocal renewed_at
        if time.monotonic() - renewed_at > RENEWAL:
            renewed_at = time.monotonic()
            take()

    if not take():
        raise TooManyUploadsError(
            f"Your organisation may send {most} files at the same time. Wait until one of them has arrived."
        )
    try:
        yield renew
    finally:
        with log_if_unavailable("an upload counts until its lease ends"):
            redis.zrem(key, lease)


def require_room(
    session: Session, organisation_id: int, quotas: BatchQuotas, more_bytes: int = 0, *, batches: int = 1
) -> None:
    """Raise TooManyOpenBatchesError or BatchStorageQuotaError if more batches would exceed the quotas."""
    own = Batch.organisation_id == organisation_id
    is_open = select(func.count()).select_from(Batch).where(own, Batch.finished_at.is_(None))
    if (session.scalar(is_open) or 0) + batches > quotas.open_batches:
        raise TooManyOpenBatchesError(
            f"Your organisation may have {quotas.open_batches:,} batches that have not ended. "
            "Wait until one has ended, or cancel one."
        )
    stored = select(func.sum(Batch.stored_bytes)).where(own, Batch.lines_removed_at.is_(None))
    if (session.scalar(stored) or 0) + more_bytes > quotas.stored_bytes:
        raise BatchStorageQuotaError(
            f"The lines of your organisation's batches may take {quotas.stored_bytes:,} bytes. "
            "They are removed some time after the end of their batch."
        )


def lock_storing(session: Session, organisation_id: int) -> bool:
    """Keep other sessions from storing a batch of the organisation until the transaction ends.

    This makes the quotas exact. Return False if another session is storing one.
    """
    lock = text("SELECT pg_try_advisory_xact_lock(:storing, hashint8(:organisation_id))")
    return bool(session.scalar(lock, {"storing": _STORING, "organisation_id": organisation_id}))
