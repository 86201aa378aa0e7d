"""Turns: organisations share the processor time that a web process has for bodies.

A process works on TURNS bodies at once: it parses, checks and stores them. More at once would not be faster,
as they share one processor. An organisation that is alone gets all turns but one, so that whoever comes next
does not wait for it. If several send requests, they share those turns, and who has the fewest is next.
Requests without a token count by address.

A body is complete before its turn begins, and a request that waits for a worker or a vendor returns its turn
first. So nobody holds a turn by being slow.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from flask import Flask, current_app, g, request

from migration_service.errors import ServiceUnavailableError

#: Bodies that a web process works on at once.
TURNS = 4
#: Requests of an organisation that wait for a turn in one process. Beyond it: 503.
MOST_WAITING = 200
#: Seconds that a request waits for its turn.
TURN_TIMEOUT = 20.0
#: Seconds after its last request for which an organisation counts as one that sends requests.
_PRESENT_SECONDS = 1.0

_TURNS = "migration_service_turns"


@dataclass(slots=True)
class _Waiting:
    """A request that waits. Its turn has begun when the event is set."""

    since: float
    begun: threading.Event = field(default_factory=threading.Event)


class Turns:
    """Who works on a body in this process, and who waits for it."""

    def __init__(self, timeout: float = TURN_TIMEOUT) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[_Waiting]] = {}
        self._seen: dict[Hashable, float] = {}

    def take(self, owner: Hashable) -> None:
        """Return when it is the turn of a request of `owner`, which must return it with `give_back`.

        Raise ServiceUnavailableError if too many wait already, or it is not its turn in time.
        """
        now = time.monotonic()
        with self._lock:
            self._seen[owner] = now
            queue = self._waiting.get(owner)
            if not queue and self._is_free_for(owner, now):
                self._taken[owner] += 1
                return
            if queue and len(queue) >= MOST_WAITING:
                raise ServiceUnavailableError
            waiting = _Waiting(now)
            self._waiting.setdefault(owner, deque()).append(waiting)
        if waiting.begun.wait(self._timeout):
            return
        with self._lock:
            if waiting.begun.is_set():
                return
            self._leave_queue(owner, waiting)
        raise ServiceUnavailableError

    def give_back(self, owner: Hashable) -> None:
        """Return the turn of a request of `owner`."""
        now = time.monotonic()
        with self._lock:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]
            while able := [other for other in self._waiting if self._is_free_for(other, now)]:
                # The one with the fewest turns, and of those the one that waits longest.
                chosen = min(able, key=lambda other: (self._taken[other], self._waiting[other][0].since))
                waiting = self._waiting[chosen][0]
                self._leave_queue(chosen, waiting)
                self._taken[chosen] += 1
                waiting.begun.set()

    def _is_free_for(self, owner: Hashable, now: float) -> bool:
        present = self._count_present(owner, now)
        share = max(1, (TURNS - 1) // present)
        return self._taken[owner] < share and self._taken.total() < TURNS

    def _count_present(self, owner: Hashable, now: float) -> int:
        """Return how many send requests, `owner` included. Forget those that do not."""
        gone = [
            other
            for other, seen in self._seen.items()
            if now - seen > _PRESENT_SECONDS and other not in self._waiting and not self._taken[other]
        ]
        for other in gone:
            del self._seen[other]
        return len(self._seen.keys() | {owner})

    def _leave_queue(self, owner: Hashable, waiting: _Waiting) -> None:
        self._waiting[owner].remove(waiting)
        if not self._waiting[owner]:
            del self._waiting[owner]


def share_turns(app: Flask) -> None:
    """Let the requests of `app` take turns. A turn ends with its request at the latest."""
    app.extensions[_TURNS] = Turns()
    app.teardown_request(lambda _error: return_turn())


def take_turn() -> None:
    """Wait until it is the turn of the current request, if it has none. Raise ServiceUnavailableError."""
    if "turn" in g:
        return
    caller = g.get("caller")
    owner = caller.organisation_id if caller else request.remote_addr
    turns: Turns = current_app.extensions[_TURNS]
    turns.take(owner)
    g.turn = owner


def return_turn() -> None:
    """Return the turn of the current request if it has one: it is done with its body."""
    if "turn" in g:
        turns: Turns = current_app.extensions[_TURNS]
        turns.give_back(g.pop("turn"))
