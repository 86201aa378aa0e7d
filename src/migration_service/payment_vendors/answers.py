"""The last responses of each payment vendor to any process, kept in Redis for operators.

They expire an hour after the last call.
"""

import time
from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.client import Pipeline

_KEY = "migration:vendor-answers:"
_KEPT_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class Failing:
    """A vendor whose last call failed."""

    #: Seconds since the first of the consecutive failed calls.
    seconds: float
    #: Seconds since the last of these calls.
    last_seconds: float
    #: The reason of the failure.
    reason: str
    #: Whether the last call was not made because a process has its circuit breaker open.
    is_open: bool


def note_answer(pipeline: Pipeline, vendor: str) -> None:
    """Record that a vendor has responded, whatever the response."""
    pipeline.delete(_KEY + vendor)


def note_failure(pipeline: Pipeline, vendor: str, reason: str, *, is_open: bool) -> None:
    """Record that a call to a vendor failed, or was not made because the circuit breaker is open."""
    key, now = _KEY + vendor, time.time()
    pipeline.hsetnx(key, "since", str(now))
    if is_open:
        pipeline.hsetnx(key, "reason", reason)
        pipeline.hset(key, mapping={"last": now, "open": 1})
    else:
        pipeline.hset(key, mapping={"last": now, "open": 0, "reason": reason})
    pipeline.expire(key, _KEPT_SECONDS)


def read_failing(redis: Redis, vendor: str) -> Failing | None:
    """Return the failures of a vendor, or None if its last call succeeded or was long ago."""
    stored = cast(dict[bytes, bytes], redis.hgetall(_KEY + vendor))
    if not stored:
        return None
    now = time.time()
    since, last = (max(0.0, now - float(stored[name])) for name in (b"since", b"last"))
    return Failing(since, last, stored[b"reason"].decode(), stored[b"open"] == b"1")
