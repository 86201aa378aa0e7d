"""Shares: how much of something scarce each organisation may hold while others hold or want some of it.

An organisation that is alone has everything. As soon as others are there, each may hold an equal part, and
what is free goes to those that have less. Each resource applies this where it is taken: slots in their
Redis script (`slots`), chunks and attempts in the statements that hand them out, and requests in a web
process here. Whoever has used its share is answered 429 with a code of its own (`ShareUsedError`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from migration_service.errors import ShareUsedError

#: An organisation by its id, or an address from which requests without a valid token come.
Owner = int | str

#: Threads of a web process, each of which serves a request. `gunicorn.conf.py` starts as many.
THREADS = 320
#: Threads that an organisation leaves to others even while it is alone, so that another one can begin.
THREADS_FOR_OTHERS = 40
#: Requests of an organisation that run at once in a process. Others of it wait, and so hold neither a
#: connection to the database nor the interpreter. More would gain nothing: one interpreter runs them all.
RUNNING_ALONE = 16
#: The same of each organisation while several need the process.
RUNNING = 2
#: Seconds for which an organisation counts as there after its last request.
PRESENT_SECONDS = 1.0
#: Seconds that a request waits for its turn at most, while others are there.
LONGEST_WAIT = 5.0
#: Seconds of processor time up to which a request is an ordinary one, such as a valid account; or seconds
#: of a view for which the database searches much. After a dearer one its organisation rests while others are
#: there, for so many times what it has cost. So dear requests use a tenth of a process.
ORDINARY_SECONDS, REST = 0.02, 9
#: Seconds after which a request that waits looks whether it is alone by now.
_LOOK_AGAIN = 0.25


def share_of(total: int, present: int) -> int:
    """Return how much of `total` each of `present` organisations may hold."""
    return max(1, -(-total // max(1, present)))


@dataclass(slots=True, eq=False)
class Place:
    """The place of a request in its process, from the moment it arrives."""

    owner: Owner
    runs: threading.Event = field(default_factory=threading.Event)
    has_left: bool = False
    #: The thread that runs it, and the processor time of that thread when it began.
    thread: int = 0
    began_at: float = 0.0
    #: Seconds that the database searched for it, if that is dear.
    searched: float = 0.0

    def begin(self) -> None:
        """Note that the request runs from now on, in this thread."""
        self.thread, self.began_at, self.searched = threading.get_ident(), time.thread_time(), 0.0

    def cost(self) -> float:
        """Return the seconds of processor time since it began, or 0 in a thread that does not run it."""
        if self.thread != threading.get_ident():
            return 0.0
        return time.thread_time() - self.began_at + self.searched


@dataclass(slots=True)
class _Held:
    """What the requests of an owner hold."""

    seen_at: float
    places: int = 0
    running: int = 0
    waiting: deque[Place] = field(default_factory=deque)
    #: Until when it rests after dear requests.
    rests_until: float = 0.0


class Places:
    """The requests in a web process by owner: which of them run, wait for their turn, or only wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[Owner, _Held] = {}

    def enter(self, owner: Owner) -> Place:
        """Wait until a request of `owner` may run. Raise ShareUsedError if others need the process instead.

        The caller calls `leave` in the end.
        """
        place = Place(owner)
        with self._lock:
            held = self._find(owner)
            if held.places >= self._share_of_threads(owner):
                raise ShareUsedError
            held.places += 1
            held.waiting.append(place)
            self._hand_out(owner, held)
        until = self._clock() + LONGEST_WAIT
        while not place.runs.wait(_LOOK_AGAIN):
            with self._lock:
                self._hand_out(owner, held)
                is_late = self._clock() >= until and self._count_others(owner)
            if is_late and not place.runs.is_set():
                self.leave(place)
                raise ShareUsedError
        place.begin()
        return place

    def step_aside(self, place: Place) -> None:
        """Let another request of the owner run, because this one only waits from now on."""
        with self._lock:
            if place.has_left:
                return
            held = self._held[place.owner]
            if place.runs.is_set():
                place.runs.clear()
                held.running -= 1
                self._charge(held, place.cost())
            elif place in held.waiting:
                held.waiting.remove(place)
            self._hand_out(place.owner, held)

    def come_back(self, place: Place) -> None:
        """Wait until a request that has stepped aside may run again, however long that takes."""
        with self._lock:
            held = self._held[place.owner]
            held.waiting.append(place)
            self._hand_out(place.owner, held)
        while not place.runs.wait(_LOOK_AGAIN):
            with self._lock:
                self._hand_out(place.owner, held)
        place.begin()

    def leave(self, place: Place) -> None:
        """End a request, once or more often."""
        self.step_aside(place)
        with self._lock:
            if not place.has_left:
                place.has_left = True
                self._held[place.owner].places -= 1

    def _find(self, owner: Owner) -> _Held:
        """Return what an owner holds, who is there now. Forget those who are gone."""
        now = self._clock()
        held = self._held.get(owner)
        if held is None:
            self._held = {
                name: it for name, it in self._held.items() if it.places or self._is_present(it, now)
            }
            held = self._held[owner] = _Held(now)
        held.seen_at = now
        return held

    def _hand_out(self, owner: Owner, held: _Held) -> None:
        share = RUNNING_ALONE
        if self._count_others(owner):
            share = 0 if self._clock() < held.rests_until else RUNNING
        while held.waiting and held.running < share:
            held.running += 1
            held.waiting.popleft().runs.set()

    def _charge(self, held: _Held, seconds: float) -> None:
        """Let an owner rest for what a dear request has cost, but not until all that wait are refused."""
        if seconds > ORDINARY_SECONDS:
            now = self._clock()
            held.rests_until = min(max(now, held.rests_until) + seconds * REST, now + LONGEST_WAIT / 2)

    def _share_of_threads(self, owner: Owner) -> int:
        return min(THREADS - THREADS_FOR_OTHERS, share_of(THREADS, self._count_others(owner) + 1))

    def _count_others(self, owner: Owner) -> int:
        """Return how many other organisations are there.

        An address counts for none: otherwise anybody could slow an organisation down, without a key.
        """
        now = self._clock()
        return sum(
            isinstance(name, int) and name != owner and self._is_present(held, now)
            for name, held in self._held.items()
        )

    def _is_present(self, held: _Held, now: float) -> bool:
        """Return whether an owner needs the process. Requests that have stepped aside do not."""
        return held.running > 0 or bool(held.waiting) or now - held.seen_at < PRESENT_SECONDS
