"""Metrics that are kept in Redis. Workers on any machine add to them, and any web process shows them.

They are for monitoring only. Flushing Redis resets them to zero, as a restart does with any counter.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from redis import Redis

from migration_service.metrics.process import SECONDS_BUCKETS

_TASKS = "migration:metrics:tasks"
_COUNTS = "migration:metrics:counts"
_REST = "migration:metrics:rest"
_SUM = "sum"


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """How often tasks with this name ended in this state, and how long they took.

    `buckets` are cumulative, as Prometheus expects: one for each limit of SECONDS_BUCKETS, and one for +Inf.
    """

    task: str
    state: str
    buckets: list[int]
    seconds: float


def add_task_time(redis: Redis, task: str, state: str, seconds: float) -> None:
    """Count a task that ended. Raise RedisError if Redis is unavailable."""
    bucket = bisect_left(SECONDS_BUCKETS, seconds)
    with redis.pipeline(transaction=False) as pipeline:
        pipeline.hincrby(_TASKS, f"{task}|{state}|{bucket}")
        pipeline.hincrbyfloat(_TASKS, f"{task}|{state}|{_SUM}", seconds)
        pipeline.execute()


def read_task_times(redis: Redis) -> Iterator[TaskTimes]:
    """Yield what `add_task_time` counted, for each task and state."""
    stored = cast(dict[bytes, bytes], redis.hgetall(_TASKS))
    tasks: dict[tuple[str, str], dict[str, float]] = {}
    for field, value in stored.items():
        task, state, what = field.decode().split("|")
        tasks.setdefault((task, state), {})[what] = float(value)
    for (task, state), values in sorted(tasks.items()):
        buckets = [0]
        for index in range(len(SECONDS_BUCKETS) + 1):
            buckets.append(buckets[-1] + int(values.get(str(index), 0)))
        yield TaskTimes(task, state, buckets[1:], values.get(_SUM, 0.0))


def keep_counts(redis: Redis, counts: dict[str, Any], *, rest_seconds: float) -> None:
    """Store what was counted in the database. `is_resting` returns True for the next `rest_seconds`."""
    redis.set(_COUNTS, json.dumps(counts))
    if rest_seconds >= 1:
        redis.set(_REST, b"1", ex=int(rest_seconds))


def read_counts(redis: Redis) -> dict[str, Any] | None:
    """Return what `keep_counts` stored last, or None if nothing was counted yet."""
    stored = cast(bytes | None, redis.get(_COUNTS))
    return json.loads(stored) if stored else None


def is_resting(redis: Redis) -> bool:
    """Return whether the last count took so long that the next one should wait."""
    return bool(redis.exists(_REST))
