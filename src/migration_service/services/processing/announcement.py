"""The announcement that attempts wait: one message to the workers for all that begin until one takes them.

A key in Redis says that a message is on its way. A worker deletes the key before it reads which attempts
wait. So an attempt that is committed after that reading finds no key, and one that is committed before is
read. Whoever writes the key publishes the message. If that fails, the key expires, and a request that still
waits announces its attempt again.
"""

from collections.abc import Callable

from redis import Redis, RedisError

from migration_service.connections import log_if_unavailable

#: The key that says that a message is on its way.
ANNOUNCED_KEY = "migration:announced"
#: Milliseconds for which a message is trusted to arrive.
TRUSTED_MS = 1_000


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
