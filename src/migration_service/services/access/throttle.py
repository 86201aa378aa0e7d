"""Guessing API keys and tokens is throttled: failed attempts are counted by client address and by key.

A failure counts from the first one on for a minute; after the tenth everything from that address, and for
that key, is refused until the minute is over, the right key included. Successes are not counted.

Tokens must be had while Redis is away: then each web process counts for itself, so that a guesser gets
at most as many times more attempts as there are processes.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address, ip_network

from redis import Redis, RedisError

from migration_service.errors import ThrottledError

logger = logging.getLogger(__name__)

#: Failed attempts that are allowed within the window.
MOST_FAILURES = 10
#: How long failures are counted together, from the first one on.
WINDOW_SECONDS = 60
#: How many counters a process keeps while Redis is away; beyond that it begins anew.
_MOST_COUNTERS = 10_000

# Adds ARGV[2] (0: only look) to each counter. Answers the largest count, and the milliseconds until the
# last of the counters that have reached ARGV[3] ends.
_COUNT = """
local most, wait = 0, 0
for _, key in ipairs(KEYS) do
  local count = tonumber(redis.call('GET', key) or '0')
  if ARGV[2] == '1' then
    count = redis.call('INCR', key)
    if count == 1 then redis.call('PEXPIRE', key, ARGV[1]) end
  end
  if count > most then most = count end
  if count >= tonumber(ARGV[3]) then wait = math.max(wait, redis.call('PTTL', key)) end
end
return {most, wait}
"""


class Throttle:
    """Counts failed attempts. `redis` has short time-outs; a subject is a client address or a key."""

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.monotonic) -> None:
        self._count_in_redis = redis.register_script(_COUNT)
        self._clock = clock
        self._lock = threading.Lock()
        #: Failures, and when they are forgotten, while Redis is away.
        self._own: dict[str, tuple[int, float]] = {}

    def check(self, subjects: Sequence[str]) -> None:
        """Raise ThrottledError if one of `subjects` has failed too often."""
        count, wait = self._count(subjects, add=0)
        if count >= MOST_FAILURES:
            raise ThrottledError(max(1, math.ceil(wait)))

    def count_failure(self, subjects: Sequence[str]) -> None:
        """Remember a failed attempt.

        Raises ThrottledError if it is beyond what is allowed: attempts at the same moment learn no more
        than attempts one after the other.
        """
        count, wait = self._count(subjects, add=1)
        if count > MOST_FAILURES:
            raise ThrottledError(max(1, math.ceil(wait)))

    def _count(self, subjects: Sequence[str], *, add: int) -> tuple[int, float]:
        """The largest count of `subjects`, and the seconds until those that are full are forgotten."""
        keys = [f"migration:throttle:{subject}" for subject in subjects]
        try:
            count, wait = self._count_in_redis(keys=keys, args=[WINDOW_SECONDS * 1000, add, MOST_FAILURES])
        except RedisError as error:
            logger.warning("Redis is away: failed attempts are counted here: %s", type(error).__name__)
            return self._count_here(keys, add)
        return count, wait / 1000

    def _count_here(self, keys: Sequence[str], add: int) -> tuple[int, float]:
        now = self._clock()
        most, wait = 0, 0.0
        with self._lock:
            if len(self._own) > _MOST_COUNTERS:
                self._own.clear()
            for key in keys:
                count, until = self._own.get(key, (0, 0.0))
                if until <= now:
                    count, until = 0, now + WINDOW_SECONDS
                count += add
                if add:
                    self._own[key] = (count, until)
                most = max(most, count)
                if count >= MOST_FAILURES:
                    wait = max(wait, until - now)
        return most, wait


def address_subject(address: str | None) -> str:
    """The subject for a client address; of IPv6 its /64, as one client has all addresses of that."""
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return "address:unknown"
    if parsed.version == 6:
        if parsed.ipv4_mapped:
            return f"address:{parsed.ipv4_mapped}"
        return f"address:{ip_network((parsed, 64), strict=False).network_address}"
    return f"address:{parsed}"


def key_subject(prefix: str) -> str:
    """The subject for attempts with an API key of this prefix."""
    return f"key:{prefix}"
