"""Which organisations send requests at this moment. Each web process notes its own in Redis."""

import time
from collections.abc import Collection
from typing import cast

from redis import Redis

from migration_service.connections import log_if_unavailable

_KEY = "migration:present"
#: Milliseconds for which a note holds.
_HOLDS_MS = 3_000
#: Seconds for which Redis is left alone after it was unavailable.
_REST_SECONDS = 10.0

# Notes the organisations ARGV[2..]. Returns all that were noted within the last ARGV[1] milliseconds.
_NOTE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('ZRANGE', KEYS[1], 0, -1)
"""


class Presence:
    """Tells the processes of each other's organisations. While Redis is unavailable, it knows of none."""

    def __init__(self, redis: Redis) -> None:
        self._note = redis.register_script(_NOTE)
        self._rests_until = 0.0

    def meet(self, here: Collection[int]) -> frozenset[int]:
        """Note the organisations that send requests to this process. Return those of all processes."""
        found: list[bytes] = []
        if time.monotonic() >= self._rests_until:
            self._rests_until = time.monotonic() + _REST_SECONDS
            with log_if_unavailable("web processes do not know of each other's organisations"):
                found = cast(list[bytes], self._note(keys=[_KEY], args=[_HOLDS_MS, *here]))
                self._rests_until = 0.0
        return frozenset(map(int, found))
