"""Shares of the processor time of a web process, so that no organisation uses up what others need.

The threads of a process share one interpreter lock, so expensive requests of one organisation delay those of
all others. What each request costs is measured in its thread. While another organisation sends requests, too,
one that has used its share waits before its next request is read, for as long as its share takes to pay for
the last ones. An organisation that is alone never waits. The others may use another web process: `Presence`
tells of them, because all processes share the processors. Work before there is a token counts for the address
that it came from.
"""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from migration_service.errors import ProcessorShareUsedError

#: An organisation by its id, or an address.
Owner = int | str

#: Seconds that a request waits at most. It is refused if its turn would come later.
LONGEST_WAIT = 5.0
#: Requests of one owner that wait in a process. Each holds a thread. Beyond it they are refused.
MOST_WAITING = 64
#: The part of a process's time from which an organisation counts as one that sends requests: some requests a
#: second. Whoever only asks for a status now and then slows down nobody.
_PRESENT = 0.01
#: Seconds over which use is averaged.
_WINDOW = 2.0
#: Seconds after which the process asks again who uses the other ones.
_MEET_AGAIN = 1.0
#: Seconds of its share that an owner may use at once.
_BURST = 0.25
#: What the first request of an owner is expected to cost, in seconds.
_FIRST_COST = 0.003
#: The weight of the newest request in what the next one is expected to cost.
_NEWEST = 0.1
#: Below this use, in seconds, an owner is forgotten.
_NEGLIGIBLE = 0.000_1


@dataclass(slots=True)
class _Account:
    """What an owner has used."""

    #: Seconds of processor time, of which the older ones count for less; true at `since`.
    used: float
    since: float
    #: When its share will have paid for everything that it has begun.
    paid_at: float
    #: What its next request is expected to cost.
    cost: float = _FIRST_COST
    waiting: int = 0

    def age(self, now: float) -> float:
        """Return what it has used, as of now."""
        self.used *= 0.5 ** ((now - self.since) / _WINDOW)
        self.since = now
        return self.used


class ProcessorShares:
    """What each owner uses of this process, of which each may use `share`, from 0 to 1; 1: no limit."""

    def __init__(
        self,
        share: float,
        meet: Callable[[Collection[int]], Collection[int]] = lambda here: here,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._share = share
        self._meet = meet
        self._met_at = 0.0
        self._elsewhere: Collection[int] = ()
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._accounts: dict[Owner, _Account] = {}

    def enter(self, owner: Owner) -> float:
        """Wait until `owner` may begin a request. Return what was charged for it in advance, in seconds.

        Raise ProcessorShareUsedError if it would have to wait for too long.
        """
        with self._lock:
            now = self._clock()
            if self._share >= 1 or not self._is_contended(owner, now):
                return 0.0
            own = self._account(owner, now)
            wait = own.paid_at - now
            if wait > 0 and own.waiting >= MOST_WAITING:
                raise ProcessorShareUsedError
            charged = own.cost if wait <= LONGEST_WAIT else 0.0
            self._pay(own, charged, now)
            own.waiting += wait > 0
        if wait > 0:
            # Also before it is refused: a client that ignores Retry-After would be back at once.
            self._sleep(min(wait, LONGEST_WAIT))
            with self._lock:
                own.waiting -= 1
        if wait > LONGEST_WAIT:
            raise ProcessorShareUsedError
        return charged

    def charge(self, owner: Owner, seconds: float, in_advance: float = 0.0) -> None:
        """Charge `owner` with the processor time of a request, of which some was charged in advance."""
        with self._lock:
            now = self._clock()
            own = self._account(owner, now)
            own.used = own.age(now) + seconds
            own.cost += (seconds - own.cost) * _NEWEST
            self._pay(own, seconds - in_advance, now)
            if now - self._met_at < _MEET_AGAIN or self._share >= 1:
                return
            self._met_at = now
            self._tidy(now)
            here = [name for name in self._accounts if isinstance(name, int) and self._is_present(name, now)]
        self._elsewhere = self._meet(here)

    def _pay(self, own: _Account, seconds: float, now: float) -> None:
        paid_at = max(own.paid_at, now - _BURST) + seconds / self._share
        # Never so far ahead that nobody of this owner could begin any more.
        own.paid_at = min(paid_at, now + 2 * LONGEST_WAIT)

    def _account(self, owner: Owner, now: float) -> _Account:
        return self._accounts.setdefault(owner, _Account(used=0.0, since=now, paid_at=now - _BURST))

    def _is_contended(self, owner: Owner, now: float) -> bool:
        """Return whether somebody else needs the process, too.

        For an organisation only other organisations count. Otherwise anybody could slow it down, without a
        key.
        """
        if any(other != owner for other in self._elsewhere):
            return True
        return any(
            self._is_present(other, now)
            for other in self._accounts
            if other != owner and (isinstance(other, int) or isinstance(owner, str))
        )

    def _is_present(self, owner: Owner, now: float) -> bool:
        return self._accounts[owner].age(now) >= _PRESENT * _WINDOW

    def _tidy(self, now: float) -> None:
        self._accounts = {
            name: account
            for name, account in self._accounts.items()
            if account.waiting or account.paid_at > now or account.age(now) > _NEGLIGIBLE
        }
