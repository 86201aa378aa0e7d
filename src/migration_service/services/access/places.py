"""Places: how many requests of one owner run at once in a web process while others need it.

Threads take turns at the interpreter. Beside a hundred requests of one organisation, one of another would get
a hundredth of the turns, until the first one has used enough to wait for its share. So requests of the same
owner beyond a few wait for a place first, and then cost nothing.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from migration_service.errors import ProcessorShareUsedError
from migration_service.services.access.processor_shares import LONGEST_WAIT, Owner

#: Requests of one owner that run at once in a process.
MOST_RUNNING = 2
#: Requests of one owner that wait for a place in a process. All 250 accounts that may be processed at once
#: can come at the same moment, and two processes share them.
MOST_WAITING = 125
#: Seconds for which a request counts as running. What takes longer mostly waits for something else.
LEASE = 1.0


@dataclass(slots=True, eq=False)
class Place:
    """The place of a request, from the moment it waits for one."""

    owner: Owner
    is_taken: threading.Event = field(default_factory=threading.Event)
    taken_at: float = 0.0


@dataclass(slots=True)
class _Owner:
    running: list[Place] = field(default_factory=list)
    waiting: deque[Place] = field(default_factory=deque)


class Places:
    """The places in this process. Each owner has MOST_RUNNING."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._owners: dict[Owner, _Owner] = {}

    def take(self, owner: Owner) -> Place:
        """Wait for a place. Raise ProcessorShareUsedError if too many wait, or if none is free in time."""
        place = Place(owner)
        with self._lock:
            own = self._owners.setdefault(owner, _Owner())
            own.waiting.append(place)
            self._hand_out(own)
            is_refused = len(own.waiting) > MOST_WAITING
        until = self._clock() + LONGEST_WAIT
        # Whoever gives a place back hands it on. A lease ends by itself.
        while not is_refused and not place.is_taken.wait(min(LEASE, max(0.0, until - self._clock()))):
            with self._lock:
                self._hand_out(own)
                is_refused = not place.is_taken.is_set() and self._clock() >= until
        if is_refused:
            self.leave(place)
            raise ProcessorShareUsedError
        return place

    def leave(self, place: Place) -> None:
        """Give a place back, once or more often. The next request that waits gets it."""
        with self._lock:
            own = self._owners.get(place.owner)
            if own is None:
                return
            for places in (own.running, own.waiting):
                if place in places:
                    places.remove(place)
            self._hand_out(own)
            if not own.running and not own.waiting:
                del self._owners[place.owner]

    def _hand_out(self, own: _Owner) -> None:
        now = self._clock()
        own.running[:] = [it for it in own.running if now - it.taken_at < LEASE]
        while own.waiting and len(own.running) < MOST_RUNNING:
            place = own.waiting.popleft()
            place.taken_at = now
            own.running.append(place)
            place.is_taken.set()
