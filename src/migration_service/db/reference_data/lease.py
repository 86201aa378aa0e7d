"""Rows that are kept in memory, and the lease that proves that none of them has changed.

Decision 10 has the argument. In short: a round trip of the listening connection that was begun at t0 delivers
the notification of every change whose COMMIT returned before t0. So what is kept after it may be used until
t0 + `seconds`. Then every change is known everywhere `seconds` after its COMMIT, whatever happens to a
process or a connection in between.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any

#: Kept results of statements. Beyond that all of them are dropped, and looked up again.
MOST_KEPT = 10_000
#: The clocks of two machines do not run at quite the same speed.
_DRIFT = 1.05

# It never goes back, and on Linux it counts the time for which the machine was suspended, too.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_NEVER = float("-inf")


def read_clock() -> float:
    """Return the seconds of a monotonic clock."""
    return time.clock_gettime(_CLOCK)


def wait_out_lease(seconds: float) -> None:
    """Wait until a change that has been committed is known to every web process.

    Call this after the commit, before anybody is told that something is revoked or ended.
    """
    time.sleep(seconds * _DRIFT)


@dataclass(frozen=True, slots=True)
class LookUp:
    """When a look-up began, and what had changed by then. Made by `Lease.begin_look_up`."""

    began_at: float
    #: The number of times that everything was dropped before.
    drops: int


@dataclass(frozen=True, slots=True)
class _Kept:
    rows: list[Any]
    #: When the rows expire, even if nothing changes.
    ends_at: float


class Lease:
    """The rows that a process keeps, and until when it may use them. Any thread may read and keep rows.

    `now` returns seconds of a monotonic clock. One thread, which listens, calls the methods from `begin` on.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = read_clock) -> None:
        self.seconds = seconds
        self.now = now
        #: When rows were last asked for.
        self.asked_at = _NEVER
        self._lock = Lock()
        self._until = _NEVER
        self._drops = 0
        #: Identifies the server whose changes are listened to.
        self.server: Any = None
        self._kept: dict[Hashable, _Kept] = {}

    def find(self, key: Hashable) -> list[Any] | None:
        """Return the rows that are kept under `key`, or None if there are none or the lease has run out."""
        # In this order. Rows that are dropped once they were found must not be covered by a later extension.
        until = self._until
        kept = self._kept.get(key)
        self.asked_at = now = self.now()
        if kept is None or now >= min(until, kept.ends_at):
            return None
        return kept.rows

    @property
    def holds(self) -> bool:
        """Whether what is kept may be used now."""
        return self.now() < self._until

    def begin_look_up(self) -> LookUp:
        """Return what `keep` needs. Call this before the statement is sent."""
        return LookUp(self.now(), self._drops)

    def keep(
        self, key: Hashable, rows: list[Any], look_up: LookUp, server: Any, seconds_left: float | None = None
    ) -> None:
        """Keep the rows of a look-up, unless something has changed since it began.

        `server` is the one that was asked. Another one may not have a change yet, or may have lost it.
        After `seconds_left` the rows expire, even if nothing changes. None: they do not.
        """
        ends_at = float("inf") if seconds_left is None else look_up.began_at + seconds_left
        with self._lock:
            if look_up.drops != self._drops or server != self.server:
                return
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            self._kept[key] = _Kept(rows, ends_at)

    def begin(self, server: Any) -> None:
        """Drop everything, and keep rows of this server, whose changes are listened to from now on."""
        self._drop(_NEVER, server)

    def drop(self) -> None:
        """Drop everything, because something has changed."""
        self._drop(self._until, self.server)

    def lose(self) -> bool:
        """Give the lease up, because changes are no longer listened to. Return whether there was one."""
        had_begun = self.server is not None
        self._drop(_NEVER, None)
        return had_begun

    def extend(self, began_at: float) -> None:
        """Extend the lease after a round trip that was begun at `began_at`.

        Call this after `drop` was called for every notification that the round trip delivered.
        """
        self._until = began_at + self.seconds

    def _drop(self, until: float, server: Any) -> None:
        with self._lock:
            self._drops += 1
            self._kept = {}
            self._until = until
            self.server = server
