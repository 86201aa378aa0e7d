"""Connections to Redis, for commands that answer at once and for those that wait."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from redis import ConnectionPool, Redis, RedisError

logger = logging.getLogger(__name__)

#: Seconds. A frozen Redis must not hold a request for longer.
COMMAND_TIMEOUT = 1.0


def make_redis(redis_url: str, *, max_connections: int = 100, wait_seconds: float = 0.0) -> Redis:
    """Return a client whose commands fail after about a second. Blocking commands have `wait_seconds` more.

    It does not retry: redis-py would send a blocking pop again, and could lose what the first one returned.
    """
    pool = ConnectionPool.from_url(
        redis_url,
        max_connections=max_connections,
        socket_connect_timeout=COMMAND_TIMEOUT,
        socket_timeout=COMMAND_TIMEOUT + wait_seconds,
        socket_keepalive=True,
        retry=None,
    )
    return Redis.from_pool(pool)  # closing the client closes its connections


def try_write(redis: Redis) -> None:
    """Write to Redis. Raise RedisError if it does not answer, or answers and takes no writes: it is full."""
    redis.set("migration:written", b"1")


@contextmanager
def log_if_unavailable(consequence: str) -> Iterator[None]:
    """Log a warning instead of raising if Redis is unavailable.

    Use it for something that happens later without Redis. `consequence` says what that is.
    """
    try:
        yield
    except RedisError as error:
        logger.warning("Redis is unavailable, and %s: %s", consequence, error)
