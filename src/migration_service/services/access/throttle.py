"""Throttling of attempts to obtain a token or to log in: failed attempts are counted by client address.

The first failure starts a window of one minute. After the tenth failure every attempt from that address is
refused until the window ends, even with the right key. Successful attempts are not counted.

Failures are not counted by API key or operator name alone, because anybody who knows a key's public prefix or
a name could then lock out its owner. A key needs no such protection: its secret part has 256 random bits.
Wrong passwords are counted by name and address, and by address.

A login is counted before its password is checked, which is expensive. The count is reduced again if the
password is right.

Clients can obtain tokens even while Redis is unavailable. Each web process then has its own counters, so an
address has ten failed attempts with each process.
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

#: Failed attempts allowed within the window.
MOST_FAILURES = 10
#: Failed logins from one address allowed within the window, for all names together.
MOST_FAILED_LOGINS = 30
#: The length of the window, starting at the first failure.
WINDOW_SECONDS = 60
#: The number of counters in a process while Redis is unavailable. If there are more, all are discarded.
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
    """The counters of failed attempts by client, in `redis`, which must have short timeouts.

    Clients are identified by `client_of` or `client_of_login`.
    """

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.monotonic) -> None:
        self._count_in_redis = redis.register_script(_COUNT)
        self._clock = clock
        self._lock = threading.Lock()
        #: Failures and their expiry while Redis is unavailable.
        self._own: dict[str, tuple[int, float]] = {}

    def check(self, client: str) -> None:
        """Raise ThrottledError if `client` has failed too often."""
        count, wait = self._count(client, add=0)
        if count >= MOST_FAILURES:
            raise ThrottledError(max(1, math.ceil(wait)))

    def count_failure(self, client: str, most: int = MOST_FAILURES) -> None:
        """Count an attempt that failed or may fail.

        Raise ThrottledError if it exceeds `most`, so that simultaneous attempts gain nothing over sequential
        ones.
        """
        count, wait = self._count(client, add=1)
        if count > most:
            raise ThrottledError(max(1, math.ceil(wait)))

    def forgive(self, client: str) -> None:
        """Uncount an attempt that has succeeded."""
        self._count(client, add=-1)

    def _count(self, client: str, *, add: int) -> tuple[int, float]:
        """Return the count of `client` and the seconds until it expires."""
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
    """Return the client with this address. All addresses in an IPv6 /64 network are one client."""
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
    """Return the client that counts attempts to guess one operator's password from one address."""
    return f"{client_of(address)} operator:{sha256(name.encode()).hexdigest()[:32]}"
