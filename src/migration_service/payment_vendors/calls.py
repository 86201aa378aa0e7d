"""The calls to payment vendors from all processes, in Redis: times for the metrics, and failures.

The failures are for operators, and expire an hour after the last call.
"""

import time
from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.client import Pipeline

from migration_service.connections import log_if_unavailable
from migration_service.errors import PaymentInstructionRejectedError, ServiceError
from migration_service.metrics.shared import add_vendor_call
from migration_service.payment_vendors.breaker import NotCalledError

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


class CallLog:
    """The log of this process's calls in Redis, where the calls of all processes are summed."""

    def __init__(self) -> None:
        self._redis: Redis | None = None

    def keep_in(self, redis: Redis) -> None:
        """Count calls in this Redis server. Until this is called they are not counted."""
        self._redis = redis

    def add(self, vendor: str, seconds: float, error: BaseException | None) -> None:
        """Count an ended call, with its error if it failed.

        A call never fails because Redis is unavailable.
        """
        if self._redis is None:
            return
        with (
            log_if_unavailable("the call of a payment vendor was not counted"),
            self._redis.pipeline(transaction=False) as pipeline,
        ):
            add_vendor_call(pipeline, vendor, _outcome(error), seconds)
            if error is None or isinstance(error, PaymentInstructionRejectedError):
                pipeline.delete(_KEY + vendor)  # it has responded, whatever the response
            else:
                told = error.detail if isinstance(error, ServiceError) else type(error).__name__
                reason = told.split(". ")[0]  # the rest of the message is for the client
                note_failure(pipeline, vendor, reason, is_open=isinstance(error, NotCalledError))
            pipeline.execute()


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "confirmed"
    return error.code if isinstance(error, ServiceError) else "error"


#: The composition roots of web processes and workers set its Redis.
CALLS = CallLog()
