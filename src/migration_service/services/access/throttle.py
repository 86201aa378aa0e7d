"""Throttling of attempts to obtain a token or to log in: failed attempts are counted by client address.

The first failure starts a window of one minute. After the tenth failure every attempt from that address is
refused until the window ends, including one with the right key. Successful attempts are not counted.

Failures are not counted by API key or by the name of an operator alone: anybody who knows the public prefix
of a key, or a name, could then lock out its owner. A key needs no such protection, because its secret part
has 256 random bits. Passwords are counted by name and address, and by address.

A login is counted before its password is checked, which is expensive, and forgiven if the password is right.

Clients can also obtain tokens while Redis is unavailable. Each web process then counts for itself, so an
address can make ten failed attempts with each process.
"""

import math
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from ipaddress import ip_address, ip_network

from redis import Redis

from migration_service.connections import log_if_unavailable
from migration_service.errors import ThrottledError

#: Failed attempts that are allowed within the window.
MOST_FAILURES = 10
#: Logins from one address that may fail within the window, whatever the names.
MOST_FAILED_LOGINS = 30
#: The length of the window, from the first failure on.
WINDOW_SECONDS = 60
#: How many counters a process keeps while Redis is unavailable. Beyond that it starts afresh.
_MOST_COUNTERS = 10_000

# Adds ARGV[2] (1, 0 or -1) to the counter. Returns the count, and the milliseconds until it expires.
_COUNT = """
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if ARGV[2] == '1' then
  count = redis.call('INCR', KEYS[1])
  if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
elseif ARGV[2] == '-1' and count > 0 then
  count = redis.call('DECR', KEYS[1])
end
return {count, redis.call('PTTL', KEYS[1])}
"""


class Throttle:
    """Counts failed attempts by client, in `redis`, which must have short timeouts.

    A client is what `client_of` returns.
    """

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.monotonic) -> None:
        self._count_in_redis = redis.register_script(_COUNT)
        self._clock = clock
        self._lock = threading.Lock()
        #: Failures, and when they expire, while Redis is unavailable.
        self._own: dict[str, tuple[int, float]] = {}

    def check(self, client: str) -> None:
        """Raise ThrottledError if `client` has failed too often."""
        count, wait = self._count(client, add=0)
        if count >= MOST_FAILURES:
            raise ThrottledError(max(1, math.ceil(wait)))

    def count_failure(self, client: str, most: int = MOST_FAILURES) -> None:
        """Count a failed attempt, or one that may fail.

        Raise ThrottledError if it is beyond `most`, so that simultaneous attempts learn no more than attempts
        one after the other.
        """
        count, wait = self._count(client, add=1)
        if count > most:
            raise ThrottledError(max(1, math.ceil(wait)))

    def forgive(self, client: str) -> None:
        """Take back an attempt that was counted, because it has succeeded."""
        self._count(client, add=-1)

    def _count(self, client: str, *, add: int) -> tuple[int, float]:
        """Return the count of `client`, and the seconds until it expires."""
        key = f"migration:throttle:{client}"
        counted: tuple[int, int] | None = None
        with log_if_unavailable("this process counts failed attempts itself"):
            counted = self._count_in_redis(keys=[key], args=[WINDOW_SECONDS * 1000, add])
        if counted is None:
            return self._count_here(key, add)
        count, wait = counted
        return count, wait / 1000

    def _count_here(self, key: str, add: int) -> tuple[int, float]:
        now = self._clock()
        with self._lock:
            if len(self._own) > _MOST_COUNTERS:
                self._own.clear()
            count, until = self._own.get(key, (0, 0.0))
            if until <= now:
                count, until = 0, now + WINDOW_SECONDS
            count = max(0, count + add)
            if add:
                self._own[key] = (count, until)
        return count, until - now


def client_of(address: str | None) -> str:
    """Return the client that an address stands for: an IPv6 client has all addresses of its /64."""
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return "address:unknown"
    if parsed.version == 6:
        if parsed.ipv4_mapped:
            return f"address:{parsed.ipv4_mapped}"
        return f"address:{ip_network((parsed, 64), strict=False).network_address}"
    return f"address:{parsed}"


def client_of_login(address: str | None, name: str) -> str:
    """Return the client that stands for whoever tries the password of one operator from one address."""
    return f"{client_of(address)} operator:{sha256(name.encode()).hexdigest()[:32]}"
