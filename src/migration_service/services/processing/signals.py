"""Signals between requests and workers through Redis: an attempt is waiting, an attempt has ended.

The announcement is one message to the workers for all attempts that start until a worker takes it. While a
message is on its way, a key in Redis says so. A worker deletes the key before it reads the waiting attempts,
so an attempt that is committed later finds no key, and one that was committed earlier is read. Whoever sets
the key publishes the message. If that fails, the key expires, and a request that is still waiting announces
its attempt again. A second kind of key marks attempts taken by a set. Any of them may have crashed that set,
so no other set takes them.

The notification is a Redis list with one element, named after the attempt. The outcome is in PostgreSQL, so a
lost notification only makes the request wait until it queries the database again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast
from uuid import UUID

from redis import Redis, RedisError

from migration_service.connections import log_if_unavailable
from migration_service.services.processing.creation import is_service_account_number
from migration_service.services.processing.slots import Slots

#: The key that says that a message is on its way.
ANNOUNCED_KEY = "migration:announced"
#: Milliseconds after which a message counts as lost.
TRUSTED_MS = 1_000
# The key that marks an attempt as taken by a set.
_TAKEN_KEY = "migration:taken:{}"
#: Seconds for which it stays marked. By then the sweep has found it.
TAKEN_SECONDS = 60
#: The key of an attempt's notification.
NOTIFICATION_KEY = "migration:notification:{}"
#: Seconds that a notification is kept. No request waits for longer.
KEPT_SECONDS = 60
#: The content of a notification if the outcome is more than a service account number.
ASK_DATABASE = "ask the database"


def announce(redis: Redis, publish: Callable[[], object]) -> None:
    """Call `publish` unless a message is on its way. Call this after committing a waiting attempt.

    Without Redis the message is published anyway: it may just have come back.
    """
    try:
        first = redis.set(ANNOUNCED_KEY, b"1", nx=True, px=TRUSTED_MS)
    except RedisError:
        first = True
    if first:
        publish()


def take_announcement(redis: Redis) -> None:
    """Delete the key. Call this before reading the waiting attempts."""
    with log_if_unavailable("attempts that start now are announced a second later"):
        redis.delete(ANNOUNCED_KEY)


def find_new(redis: Redis, attempt_ids: Sequence[UUID]) -> set[UUID]:
    """Return the attempts that no earlier set has taken. Without Redis, return all of them."""
    try:
        with redis.pipeline(transaction=False) as pipeline:
            for attempt_id in attempt_ids:
                pipeline.set(_TAKEN_KEY.format(attempt_id), b"1", nx=True, ex=TAKEN_SECONDS)
            written = pipeline.execute()
    except RedisError:
        return set(attempt_ids)
    return {attempt_id for attempt_id, new in zip(attempt_ids, written, strict=True) if new}


def notify(redis: Redis, slots: Slots, ended: Mapping[UUID, str | None]) -> None:
    """Release the slots of ended attempts and wake the waiting requests, in one round trip.

    `ended` has the service account numbers of accounts that were created. Call this only after the commit.
    Without Redis the requests query the database, and the leases of the slots expire.
    """
    if not ended:
        return
    with (
        log_if_unavailable(f"nobody was notified of the attempts {', '.join(map(str, ended))}"),
        redis.pipeline(transaction=False) as pipeline,
    ):
        slots.add_release(pipeline, ended)
        pipeline.delete(*map(_TAKEN_KEY.format, ended))
        for attempt_id, number in ended.items():
            key = NOTIFICATION_KEY.format(attempt_id)
            pipeline.rpush(key, number or ASK_DATABASE)
            pipeline.expire(key, KEPT_SECONDS)
        pipeline.execute()


def wait_for_notification(redis: Redis, attempt_id: UUID, timeout: float) -> str | None:
    """Wait up to `timeout` seconds. Return the service account number in the notification if it has one.

    Return None if the database must be queried. `redis` must allow commands to block for this long.
    """
    try:
        received = redis.blpop([NOTIFICATION_KEY.format(attempt_id)], timeout=timeout)
    except RedisError:
        time.sleep(min(0.2, timeout))
        return None
    text = cast(bytes, received[1]).decode("ascii", "replace") if received else ""
    # A number is the outcome, because the worker notifies after its commit, with a key that only this attempt
    # has. Anything that is not in the form of a number is ignored.
    return text if is_service_account_number(text) else None
