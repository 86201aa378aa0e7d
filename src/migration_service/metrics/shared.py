"""Metrics in Redis. Any process on any machine adds to them, and any web process shows them.

They are for monitoring only. Flushing Redis resets them to zero, like a restart with any counter.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis import Redis
from redis.client import Pipeline

#: Limits of the histogram, in seconds. A process request may wait for half a minute.
SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: Limits for the wait in a queue, in seconds. Messages of a large batch wait for minutes.
WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)

_TASKS = "migration:metrics:tasks"
WAITS = "migration:metrics:waits"
_VENDOR_CALLS = "migration:metrics:vendor-calls"
_COUNTS = "migration:metrics:counts"
_REST = "migration:metrics:rest"
_SUM = "sum"


@dataclass(frozen=True, slots=True)
class Times:
    """The number and durations of events with these labels.

    `buckets` are cumulative, as Prometheus expects: one for each limit of its histogram, and one for +Inf.
    """

    labels: list[str]
    buckets: list[int]
    seconds: float


def add_task_time(
    redis: Redis, task: str, state: str, seconds: float, *, queue: str = "", waited: float | None = None
) -> None:
    """Count an ended task, and the time that its message waited in its queue, if known.

    Raise RedisError if Redis is unavailable.
    """
    with redis.pipeline(transaction=False) as pipeline:
        _add(pipeline, _TASKS, f"{task}|{state}", seconds)
        if waited is not None:
            _add(pipeline, WAITS, queue, waited, WAIT_BUCKETS)
        pipeline.execute()


def read_queue_waits(redis: Redis) -> Iterator[Times]:
    """Yield the waiting times of messages in each queue, with the limits WAIT_BUCKETS."""
    return _read(redis, WAITS, 1)


def read_task_times(redis: Redis) -> Iterator[Times]:
    """Yield the times from `add_task_time` for each task and state."""
    return _read(redis, _TASKS, 2)


def add_vendor_call(pipeline: Pipeline, vendor: str, outcome: str, seconds: float) -> None:
    """Count an ended call to a payment vendor."""
    _add(pipeline, _VENDOR_CALLS, f"{vendor}|{outcome}", seconds)


def read_vendor_calls(redis: Redis) -> Iterator[Times]:
    """Yield the times from `add_vendor_call` for each vendor and outcome."""
    return _read(redis, _VENDOR_CALLS, 2)


def _add(
    pipeline: Pipeline, key: str, labels: str, seconds: float, limits: Sequence[float] = SECONDS_BUCKETS
) -> None:
    pipeline.hincrby(key, f"{labels}|{bisect_left(limits, seconds)}")
    pipeline.hincrbyfloat(key, f"{labels}|{_SUM}", seconds)


def _read(redis: Redis, key: str, labels: int) -> Iterator[Times]:
    """Yield the times from `_add`. Only the first of these labels may contain a vertical bar."""
    stored = cast(dict[bytes, bytes], redis.hgetall(key))
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for field, value in stored.items():
        *names, what = field.decode().rsplit("|", labels)
        found.setdefault(tuple(names), {})[what] = float(value)
    for labelled, values in sorted(found.items()):
        buckets = [0]
        for index in range((len(WAIT_BUCKETS) if key == WAITS else len(SECONDS_BUCKETS)) + 1):
            buckets.append(buckets[-1] + int(values.get(str(index), 0)))
        yield Times([*labelled], buckets[1:], values.get(_SUM, 0.0))


def keep_counts(redis: Redis, counts: dict[str, Any], *, rest_seconds: float) -> None:
    """Store the counts of the database. `is_resting` returns True for the next `rest_seconds`."""
    redis.set(_COUNTS, json.dumps(counts))
    if rest_seconds >= 1:
        redis.set(_REST, b"1", ex=int(rest_seconds))


def read_counts(redis: Redis) -> dict[str, Any] | None:
    """Return the counts last stored by `keep_counts`, or None if there are none yet."""
    stored = cast(bytes | None, redis.get(_COUNTS))
    return json.loads(stored) if stored else None


def is_resting(redis: Redis) -> bool:
    """Return whether the last count took so long that the next one should wait."""
    return bool(redis.exists(_REST))
