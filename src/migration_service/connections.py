"""Connections to Redis, for commands that answer at once and for those that wait."""

from redis import ConnectionPool, Redis

#: Seconds. A frozen Redis must not hold a request for longer.
COMMAND_TIMEOUT = 1.0


def make_redis(redis_url: str, *, max_connections: int = 100, wait_seconds: float = 0.0) -> Redis:
    """A client whose commands fail after about a second; `wait_seconds` more where they block by themselves.

    No retries: redis-py would send a blocking pop again and could swallow what the first one got.
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
