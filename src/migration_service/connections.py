"""Connections to Redis, for immediate and for blocking commands, directly or through Sentinels."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from redis import ConnectionPool, Redis, RedisError
from redis.connection import parse_url
from redis.sentinel import Sentinel, SentinelConnectionPool

logger = logging.getLogger(__name__)

#: Seconds after which a frozen Redis must not delay a request any longer.
COMMAND_TIMEOUT = 1.0
_SENTINEL_PORT = 26379


def make_redis(redis_url: str, *, max_connections: int = 100, wait_seconds: float = 0.0) -> Redis:
    """Return a client whose commands fail after about a second, or `wait_seconds` later if they block.

    It does not retry, because redis-py would repeat a blocking pop, and could lose the result of the first.
    Raise ValueError if the address is not valid.
    """
    options: dict[str, Any] = {
        "socket_connect_timeout": COMMAND_TIMEOUT,
        "socket_timeout": COMMAND_TIMEOUT + wait_seconds,
        "socket_keepalive": True,
        "retry": None,
    }
    pool: ConnectionPool
    if sentinels := Sentinels.of(redis_url):
        watchers = options | {"socket_timeout": COMMAND_TIMEOUT} | sentinels.own_login
        manager = Sentinel(  # type: ignore[no-untyped-call]
            sentinels.addresses, sentinel_kwargs=watchers
        )
        options |= sentinels.options
        pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
            sentinels.master_name, manager, max_connections=max_connections, **options
        )
    else:
        pool = ConnectionPool.from_url(redis_url, max_connections=max_connections, **options)
    return Redis.from_pool(pool)  # closing the client closes its connections


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The parts of `sentinel://:password@one:26379/0?master_name=main;sentinel://two:26379;…`.

    The first address has the password and the number of the database, which are those of the Redis, and the
    name by which the Sentinels know it. Their own password is `sentinel_password`.
    """

    addresses: list[tuple[str, int]]
    master_name: str
    #: The login of the Sentinels, and the options of the Redis behind them.
    own_login: dict[str, str]
    options: dict[str, Any]
    #: The address for Celery, whose options have the rest.
    broker_url: str

    @classmethod
    def of(cls, address: str) -> "Sentinels | None":
        """Return the parts of an address, or None if it names no master behind Sentinels."""
        parts = [urlsplit(part) for part in address.split(";")]
        if any(part.scheme != "sentinel" or not part.hostname for part in parts):
            return None
        as_redis = urlunsplit(parts[0]._replace(scheme="redis"))
        options = parse_url(as_redis)  # type: ignore[no-untyped-call]
        master_name = options.pop("master_name", None)
        if master_name is None:
            return None
        own = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
        for name in ("host", "port"):
            options.pop(name, None)
        return cls(
            [(part.hostname or "", part.port or _SENTINEL_PORT) for part in parts],
            master_name,
            {name: text for name, text in own.items() if text},
            options,
            ";".join(urlunsplit(part._replace(query="")) for part in parts),
        )


def try_write(redis: Redis) -> None:
    """Write to Redis. Raise RedisError if it does not respond, or refuses writes because it is full."""
    redis.set("migration:written", b"1")


def can_write(redis: Redis) -> bool:
    """Return whether Redis responds and accepts writes."""
    try:
        try_write(redis)
    except RedisError:
        return False
    return True


@contextmanager
def log_if_unavailable(consequence: str) -> Iterator[None]:
    """Log a warning instead of raising if Redis is unavailable.

    Use this for effects that are only delayed without Redis. `consequence` describes the delay.
    """
    try:
        yield
    except RedisError as error:
        logger.warning("Redis is unavailable, and %s: %s", consequence, error)
