"""The announcement that attempts wait: one message to the workers for all that begin until one takes them.

A key in Redis says that a message is on its way. A worker deletes the key before it reads which attempts
wait. So an attempt that is committed after that reading finds no key, and one that is committed before is
read. Whoever writes the key publishes the message. If that fails, the key expires, and a request that still
waits announces its attempt again.

A second kind of key says which attempts a set has taken. One of them may be what ended that set, so no other
set takes them.
"""

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from redis import Redis, RedisError
from redis.client import Pipeline

from migration_service.connections import log_if_unavailable

#: The key that says that a message is on its way.
ANNOUNCED_KEY = "migration:announced"
#: Milliseconds for which a message is trusted to arrive.
TRUSTED_MS = 1_000
#: Seconds for which it is known that a set has taken an attempt. By then the sweep has found it.
TAKEN_SECONDS = 60


def announce(redis: Redis, publish: Callable[[], object]) -> None:
    """Call `publish` unless a message is on its way. Call this after the commit that made an attempt wait.

    Without Redis the message is published: the broker may be another one.
    """
    try:
        first = redis.set(ANNOUNCED_KEY, b"1", nx=True, px=TRUSTED_MS)
    except RedisError:
        first = True
    if first:
        publish()


def take_announcement(redis: Redis) -> None:
    """Delete the key. Call this before reading which attempts wait."""
    with log_if_unavailable("attempts that begin now are announced a second later"):
        redis.delete(ANNOUNCED_KEY)


def find_new(redis: Redis, attempt_ids: Sequence[UUID]) -> set[UUID]:
    """Return the attempts that no set has taken before this one. Without Redis, return all of them."""
    try:
        with redis.pipeline(transaction=False) as pipeline:
            for attempt_id in attempt_ids:
                pipeline.set(_taken_key(attempt_id), b"1", nx=True, ex=TAKEN_SECONDS)
            written = pipeline.execute()
    except RedisError:
        return set(attempt_ids)
    return {attempt_id for attempt_id, new in zip(attempt_ids, written, strict=True) if new}


def add_forget(pipeline: Pipeline, attempt_ids: Iterable[UUID]) -> None:
    """Delete the keys of attempts that have ended, in a pipeline."""
    pipeline.delete(*map(_taken_key, attempt_ids))


def _taken_key(attempt_id: UUID) -> str:
    return f"migration:taken:{attempt_id}"
