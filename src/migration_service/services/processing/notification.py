"""The wake-up notification: how a worker tells the waiting request that its attempt has ended.

It is a Redis list with one element, named after the attempt. PostgreSQL has the outcome, so that a lost
notification only makes the request wait until it asks the database again.
"""

import time
from collections.abc import Mapping
from typing import cast
from uuid import UUID

from redis import Redis, RedisError

from migration_service.connections import log_if_unavailable
from migration_service.services.processing.announcement import add_forget
from migration_service.services.processing.creation import is_service_account_number
from migration_service.slots import Slots

#: Seconds that a notification is kept. No request waits for longer.
KEPT_SECONDS = 60
#: The content of a notification if the outcome is more than a service account number.
ASK_DATABASE = "ask the database"


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
        add_forget(pipeline, contents)
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
