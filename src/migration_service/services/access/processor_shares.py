"""Shares of the processor time of a web process, so that no organisation uses up what others need.

The threads of a process share one interpreter lock, so expensive requests of one organisation delay those of
all others. What each request costs is measured in its thread. While several organisations send requests, the
one that has used the most waits before its next request is read, as long as its share takes to pay for it. An
organisation that is alone never waits, and neither does one that has used less than another. All processes
share the processors, so `exchange` tells what organisations use of the other ones. `places` has what protects
others from many requests at once of an organisation that has used little until then.

Work for requests without a valid token counts for the address that they come from.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from migration_service.errors import ProcessorShareUsedError

#: An organisation by its id, or an address.
Owner = int | str

#: Seconds that a request waits at most. If its turn would come later, it is refused then.
LONGEST_WAIT = 5.0
#: Requests of one owner that wait in a process. Each holds a thread. Beyond it they are refused at once.
MOST_WAITING = 64
#: Seconds over which use counts half.
_HALF_LIFE = 2.0
#: Seconds of use from which an organisation counts as one that sends requests: some requests a second.
#: Whoever only asks for a status now and then slows down nobody.
_PRESENT = 0.02
#: Seconds of its share that an owner may use at once.
_BURST = 0.25
#: The part of an organisation's share that an address has for requests without a valid token.
_OF_AN_ADDRESS = 0.5
#: Seconds up to which a request is an ordinary one, such as a valid account. While an organisation sends no
#: others, they delay nobody by much, and it has this share at least: two that migrate account by account use
#: a process up together.
_ORDINARY, _ORDINARY_SHARE = 0.02, 0.75
#: What the first request of an owner is expected to cost, in seconds.
_FIRST_COST = 0.003
#: The weight of the newest request in what the next one is expected to cost, if it was a cheap one. A dear
#: one counts fully, so that two of them rarely run at once. What was charged too much is given back.
_NEWEST = 0.1
#: More than this, in seconds, no request is expected to cost.
_DEAREST = 0.1
#: Below this use, in seconds, an owner is forgotten.
_NEGLIGIBLE = 0.000_1
#: Seconds after which the process asks again what is used of the other ones.
_EXCHANGE_AGAIN = 1.0
#: Seconds for which a thread may hold the interpreter's lock while others want it, if several organisations
#: need the process. Each step of a request waits so long for every expensive request of the others.
_SHORT_TURN = 0.000_5


@dataclass(slots=True)
class _Account:
    """What an owner has used of this process."""

    #: Seconds of processor time, of which the older ones count for less; true at `since`.
    used: float
    since: float
    #: When its share will have paid for the requests that had to wait.
    paid_at: float
    #: What its next request is expected to cost.
    cost: float = _FIRST_COST
    waiting: int = 0

    def age(self, now: float) -> float:
        """Return what it has used, as of now."""
        self.used *= 0.5 ** ((now - self.since) / _HALF_LIFE)
        self.since = now
        return self.used


class ProcessorShares:
    """What each owner uses of this process. The one that uses the most may use `share` of it, from 0 to 1.

    1 is no limit. With ordinary requests alone it may use three quarters.
    """

    def __init__(
        self,
        share: float,
        exchange: Callable[[Mapping[int, float]], Mapping[int, float]] = lambda _used: {},
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._share = share
        self._exchange = exchange
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._accounts: dict[Owner, _Account] = {}
        self._elsewhere: Mapping[int, float] = {}
        self._exchanged_at = 0.0
        self._usual_turn = sys.getswitchinterval()

    def enter(self, owner: Owner) -> float:
        """Wait until `owner` may begin a request. Return what was charged for it in advance, in seconds.

        That is 0 for a request that does not count against its share. Raise ProcessorShareUsedError if it
        would have to wait for too long.
        """
        with self._lock:
            now = self._clock()
            if self._share >= 1 or not self._uses_the_most(owner, now):
                return 0.0
            own = self._account(owner, now)
            wait = own.paid_at - now
            if wait > 0 and own.waiting >= MOST_WAITING:
                raise ProcessorShareUsedError
            charged = own.cost if wait <= LONGEST_WAIT else 0.0
            self._pay(owner, own, charged, now)
            own.waiting += wait > 0
        if wait > 0:
            # Also before it is refused: a client that ignores Retry-After would be back at once.
            self._sleep(min(wait, LONGEST_WAIT))
            with self._lock:
                own.waiting -= 1
        if wait > LONGEST_WAIT:
            raise ProcessorShareUsedError
        return charged

    def is_needed_by_others(self, owner: Owner) -> bool:
        """Return whether other organisations send requests, to this process or to another one."""
        if self._share >= 1:
            return False
        with self._lock:
            return self._most_of_others(owner, self._clock()) >= _PRESENT

    def charge(self, owner: Owner, seconds: float, in_advance: float = 0.0) -> None:
        """Charge `owner` with the processor time of a request, of which some was charged in advance."""
        with self._lock:
            now = self._clock()
            own = self._account(owner, now)
            own.used = own.age(now) + seconds
            known = min(seconds, _DEAREST)
            own.cost = max(known, own.cost + (known - own.cost) * _NEWEST)
            if in_advance:
                self._pay(owner, own, seconds - in_advance, now)
            if now - self._exchanged_at < _EXCHANGE_AGAIN or self._share >= 1:
                return
            self._exchanged_at = now
            used = self._tidy(now)
        self._elsewhere = self._exchange(used)
        with self._lock:
            present = [it for it in self._organisations() if self._use(it, now) >= _PRESENT]
        sys.setswitchinterval(_SHORT_TURN if len(present) > 1 else self._usual_turn)

    def _pay(self, owner: Owner, own: _Account, seconds: float, now: float) -> None:
        if not isinstance(owner, int):
            share = self._share * _OF_AN_ADDRESS
        elif own.cost <= _ORDINARY:
            share = max(self._share, _ORDINARY_SHARE)
        else:
            share = self._share
        paid_at = max(own.paid_at, now - _BURST) + seconds / share
        # Never so far ahead that nobody of this owner could begin any more.
        own.paid_at = min(paid_at, now + 2 * LONGEST_WAIT)

    def _account(self, owner: Owner, now: float) -> _Account:
        return self._accounts.setdefault(owner, _Account(used=0.0, since=now, paid_at=now - _BURST))

    def _uses_the_most(self, owner: Owner, now: float) -> bool:
        """Return whether others need the process, and none of them has used as much as `owner`.

        An address counts as the one that uses the most as soon as an organisation needs the process. It
        counts for no organisation: otherwise anybody could slow one down, without a key.
        """
        most = self._most_of_others(owner, now)
        return most >= _PRESENT and (isinstance(owner, str) or self._use(owner, now) >= most)

    def _most_of_others(self, owner: Owner, now: float) -> float:
        return max((self._use(it, now) for it in self._organisations() if it != owner), default=0.0)

    def _organisations(self) -> set[int]:
        return {*self._elsewhere, *(name for name in self._accounts if isinstance(name, int))}

    def _use(self, organisation_id: int, now: float) -> float:
        own = self._accounts.get(organisation_id)
        return self._elsewhere.get(organisation_id, 0.0) + (own.age(now) if own else 0.0)

    def _tidy(self, now: float) -> dict[int, float]:
        """Forget who has used nothing for a while. Return what the organisations have used."""
        self._accounts = {
            name: own
            for name, own in self._accounts.items()
            if own.waiting or own.paid_at > now or own.age(now) > _NEGLIGIBLE
        }
        return {name: own.used for name, own in self._accounts.items() if isinstance(name, int)}
