"""What a request and the workers tell each other through Redis: an attempt waits, an attempt has ended.

The announcement is one message to the workers for all attempts that begin until one takes them. A key in
Redis says that it is on its way. A worker deletes the key before it reads which attempts wait. So an attempt
that is committed after that reading finds no key, and one that is committed before is read. Whoever writes
the key publishes the message. If that fails, the key expires, and a request that still waits announces its
attempt again. A second kind of key says which attempts a set has taken. One of them may be what ended that
set, so no other set takes them.

The notification is a Redis list with one element, named after the attempt. PostgreSQL has the outcome, so a
lost notification only makes the request wait until it asks the database again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast
from uuid import UUID

from redis import Redis, RedisError

from migration_service.connections import log_if_unavailable
from migration_service.services.processing.creation import is_service_account_number
from migration_service.slots import Slots

#: The key that says that a message is on its way.
ANNOUNCED_KEY = "migration:announced"
#: Milliseconds for which a message is trusted to arrive.
TRUSTED_MS = 1_000
#: Seconds for which it is known that a set has taken an attempt. By then the sweep has found it.
TAKEN_SECONDS = 60
#: Seconds that a notification is kept. No request waits for longer.
KEPT_SECONDS = 60
#: The content of a notification if the outcome is more than a service account number.
ASK_DATABASE = "ask the database"


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


def notification_key(attempt_id: UUID) -> str:
    """Return the Redis key of an attempt's notification."""
    return f"migration:notification:{attempt_id}"


def notify(redis: Redis, slots: Slots, attempt_id: UUID, content: str | None = None) -> None:
    """Release the slot of an ended attempt, and wake the waiting request, as `notify_all` does."""
    notify_all(redis, slots, {attempt_id: content})


def notify_all(redis: Redis, slots: Slots, contents: Mapping[UUID, str | None]) -> None:
    """Release the slots of ended attempts, and wake the waiting requests, in one round trip.

    Call it only after the commit: the content of an attempt may be the service account number that was
    committed. Without Redis the requests ask the database, and the leases of the slots end.
    """
    if not contents:
        return
    attempts = [str(attempt_id) for attempt_id in contents]
    with (
        log_if_unavailable(f"nobody was notified of the attempts {', '.join(attempts)}"),
        redis.pipeline(transaction=False) as pipeline,
    ):
        slots.add_release(pipeline, attempts)
        pipeline.delete(*map(_taken_key, contents))
        for attempt_id, content in contents.items():
            key = notification_key(attempt_id)
            pipeline.rpush(key, content or ASK_DATABASE)
            pipeline.expire(key, KEPT_SECONDS)
        pipeline.execute()


def wait_for_notification(redis: Redis, attempt_id: UUID, timeout: float) -> str | None:
    """Wait up to `timeout` seconds. Return the service account number of the notification if it has one.

    Return None if the database must be asked. `redis` must allow commands that block for this long.
    """
    try:
        received = redis.blpop([notification_key(attempt_id)], timeout=timeout)
    except RedisError:
        time.sleep(min(0.2, timeout))
        return None
    return read_notification(cast(bytes, received[1])) if received else None


def read_notification(content: bytes) -> str | None:
    """Return the service account number in a notification, or None if it says to ask the database.

    The worker notifies after its commit, under a key that only this attempt has. So a number is the outcome.
    Anything without the form of a number is ignored.
    """
    text = content.decode("ascii", "replace")
    return text if is_service_account_number(text) else None


def _taken_key(attempt_id: UUID) -> str:
    return f"migration:taken:{attempt_id}"
