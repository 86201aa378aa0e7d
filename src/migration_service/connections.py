"""Connections to Redis, for immediate and for blocking commands."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from redis import ConnectionPool, Redis, RedisError

logger = logging.getLogger(__name__)

#: Seconds after which a frozen Redis must not delay a request any longer.
COMMAND_TIMEOUT = 1.0


def make_redis(redis_url: str, *, max_connections: int = 100, wait_seconds: float = 0.0) -> Redis:
    """Return a client whose commands fail after about a second, or `wait_seconds` later if they block.

    It does not retry, because redis-py would repeat a blocking pop, and could lose the result of the first.
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
    """Write to Redis. Raise RedisError if it does not respond, or refuses writes because it is full."""
    redis.set("migration:written", b"1")


@contextmanager
def log_if_unavailable(consequence: str) -> Iterator[None]:
    """Log a warning instead of raising if Redis is unavailable.

    Use this for effects that are only delayed without Redis. `consequence` describes the delay.
    """
    try:
        yield
    except RedisError as error:
        logger.warning("Redis is unavailable, and %s: %s", consequence, error)
