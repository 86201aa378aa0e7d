"""Fair shares of scarce resources: how much an organisation may hold while others need some.

A single active organisation may use everything. If there are several, each may hold an equal share, and free
resources go to those that have less. Each resource applies this where it is acquired: slots in their Redis
script (`slots`), chunks and attempts in the statements that dispatch them, and requests of a web process
here. An organisation that uses its whole share gets a 429 (`ShareUsedError`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from migration_service.errors import ShareUsedError

#: The id of an organisation, or the address of requests without a valid token.
Owner = int | str

#: The number of threads of a web process, each of which serves a request. `web_server` uses it.
THREADS = 320
#: Threads that a single active organisation leaves free, so that another one can start.
THREADS_FOR_OTHERS = 40
#: The most requests of an organisation running simultaneously in a process. Its other requests wait, and hold
#: neither a database connection nor the interpreter. More would gain nothing, because one interpreter runs
#: them all.
RUNNING_ALONE = 16
#: The same while several organisations need the process.
RUNNING = 2
#: Seconds for which an organisation counts as active after its last request.
PRESENT_SECONDS = 1.0
#: The longest time that a request waits for its turn while others are active, in seconds.
LONGEST_WAIT = 5.0
#: Seconds of processor time, or of a view with expensive queries, below which a request is ordinary, such as
#: a valid account. After a more expensive request its organisation rests, while others are active, for this
#: multiple of the cost. So expensive requests use a tenth of a process.
ORDINARY_SECONDS, REST = 0.02, 9
#: Seconds after which a waiting request checks whether its organisation is the only active one.
LOOK_AGAIN = 0.25


def share_of(total: int, present: int) -> int:
    """Return the share of `total` that each of `present` organisations may hold."""
    return max(1, -(-total // max(1, present)))


@dataclass(slots=True, eq=False)
class Place:
    """The place of a request in its process, from its arrival on."""

    owner: Owner
    runs: threading.Event = field(default_factory=threading.Event)
    has_left: bool = False
    #: The thread that runs it, and the processor time of that thread at its start.
    thread: int = 0
    started_at: float = 0.0
    #: Seconds of expensive database queries.
    searched: float = 0.0

    def start(self) -> None:
        """Record that the request starts running in this thread."""
        self.thread, self.started_at, self.searched = threading.get_ident(), time.thread_time(), 0.0

    def cost(self) -> float:
        """Return the seconds of processor time since its start, or 0 in a thread that does not run it."""
        if self.thread != threading.get_ident():
            return 0.0
        return time.thread_time() - self.started_at + self.searched


@dataclass(slots=True)
class _Held:
    """The resources held by the requests of an owner."""

    seen_at: float
    places: int = 0
    running: int = 0
    waiting: deque[Place] = field(default_factory=deque)
    #: The time until which it rests after expensive requests.
    rests_until: float = 0.0


class Places:
    """The requests in a web process by owner: running, waiting for their turn, or stepped aside."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[Owner, _Held] = {}

    def enter(self, owner: Owner) -> Place:
        """Wait until a request of `owner` may run. Raise ShareUsedError if others need the process instead.

        The caller must call `leave` at the end.
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
        while not place.runs.wait(LOOK_AGAIN):
            with self._lock:
                self._hand_out(owner, held)
                is_late = self._clock() >= until and self._count_others(owner)
            if is_late and not place.runs.is_set():
                self.leave(place)
                raise ShareUsedError
        place.start()
        return place

    def step_aside(self, place: Place) -> None:
        """Let another request of the owner run while this one only waits."""
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
        while not place.runs.wait(LOOK_AGAIN):
            with self._lock:
                self._hand_out(place.owner, held)
        place.start()

    def leave(self, place: Place) -> None:
        """End a request. Further calls have no effect."""
        self.step_aside(place)
        with self._lock:
            if not place.has_left:
                place.has_left = True
                self._held[place.owner].places -= 1

    def _find(self, owner: Owner) -> _Held:
        """Return the resources of an owner and mark it as active. Forget inactive owners."""
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
        """Let an owner rest after an expensive request, for half of LONGEST_WAIT at most."""
        if seconds > ORDINARY_SECONDS:
            now = self._clock()
            held.rests_until = min(max(now, held.rests_until) + seconds * REST, now + LONGEST_WAIT / 2)

    def _share_of_threads(self, owner: Owner) -> int:
        return min(THREADS - THREADS_FOR_OTHERS, share_of(THREADS, self._count_others(owner) + 1))

    def _count_others(self, owner: Owner) -> int:
        """Return the number of other active organisations.

        Addresses do not count, because anybody could otherwise slow down an organisation without a key.
        """
        now = self._clock()
        return sum(
            isinstance(name, int) and name != owner and self._is_present(held, now)
            for name, held in self._held.items()
        )

    def _is_present(self, held: _Held, now: float) -> bool:
        """Return whether an owner needs the process. Requests that have stepped aside do not."""
        return held.running > 0 or bool(held.waiting) or now - held.seen_at < PRESENT_SECONDS
