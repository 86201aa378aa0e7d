"""Places in a web process: how many requests of one owner run at once, and who gets the next place."""

import threading
from collections.abc import Callable

import pytest

from migration_service.errors import ProcessorShareUsedError
from migration_service.services.access import places as module
from migration_service.services.access.places import LEASE, MOST_RUNNING, Place, Places
from migration_service.services.access.processor_shares import LONGEST_WAIT

ONE, OTHER = 1, 2


class Clock:
    """A clock that stands still unless it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def places(clock: Clock) -> Places:
    return Places(clock)


class Waiter:
    """A request that waits for a place in a thread of its own."""

    def __init__(self, places: Places, owner: int) -> None:
        before = _count_waiting(places, owner)
        self.place: Place | None = None
        self.error: ProcessorShareUsedError | None = None
        self._thread = threading.Thread(target=self._take, args=[places, owner], daemon=True)
        self._thread.start()
        _until(lambda: _count_waiting(places, owner) > before)

    def _take(self, places: Places, owner: int) -> None:
        try:
            self.place = places.take(owner)
        except ProcessorShareUsedError as error:
            self.error = error

    def end(self) -> "Place | ProcessorShareUsedError | None":
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.place or self.error


def _count_waiting(places: Places, owner: int) -> int:
    return len(places._owners[owner].waiting) if owner in places._owners else 0


def _until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3_000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come within 30 seconds")


def test_a_place_is_handed_to_the_request_of_its_owner_that_has_waited_longest(places: Places) -> None:
    first, *_ = [places.take(ONE) for _ in range(MOST_RUNNING)]
    waiters = [Waiter(places, ONE) for _ in range(2)]
    places.leave(first)
    assert _count_waiting(places, ONE) == 1, "it is handed on at once"
    second = waiters[0].end()
    assert isinstance(second, Place)
    assert _count_waiting(places, ONE) == 1
    places.leave(second)
    assert isinstance(waiters[1].end(), Place)


def test_no_owner_waits_for_the_requests_of_another_one(places: Places) -> None:
    for _ in range(MOST_RUNNING):
        places.take(ONE)
    waiter = Waiter(places, ONE)
    others = [places.take(OTHER) for _ in range(MOST_RUNNING)]
    assert len(others) == MOST_RUNNING
    places.leave(others[0])
    assert _count_waiting(places, ONE) == 1, "it was a place of the other one"
    places.leave(places._owners[ONE].running[0])
    waiter.end()


def test_a_request_that_takes_long_keeps_its_place_for_the_lease_only(places: Places, clock: Clock) -> None:
    for _ in range(MOST_RUNNING):
        places.take(ONE)
    clock.now += LEASE
    assert places.take(ONE).is_taken.is_set()


def test_a_place_that_is_given_back_twice_lets_one_request_run(places: Places) -> None:
    first, *_ = [places.take(ONE) for _ in range(MOST_RUNNING)]
    places.leave(first)
    places.take(ONE)
    waiter = Waiter(places, ONE)
    places.leave(first)
    assert _count_waiting(places, ONE) == 1
    places.leave(places._owners[ONE].running[0])
    waiter.end()


def test_a_request_that_gets_no_place_in_time_is_refused_and_forgotten(
    places: Places, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEASE", 0.01)
    held = [places.take(ONE) for _ in range(MOST_RUNNING)]
    for place in held:
        place.taken_at = clock.now + 2 * LONGEST_WAIT
    waiter = Waiter(places, ONE)
    clock.now += LONGEST_WAIT
    assert isinstance(waiter.end(), ProcessorShareUsedError)
    for place in held:
        places.leave(place)
    assert places._owners == {}


@pytest.fixture
def waits(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait, which the clock is set forward by instead."""
    found: list[float] = []

    def wait(event: threading.Event, seconds: float) -> bool:
        if not event.is_set():
            found.append(seconds)
            clock.now += seconds
        return event.is_set()

    monkeypatch.setattr(threading.Event, "wait", wait)
    return found


def test_a_place_that_is_free_is_taken_without_a_wait(places: Places, waits: list[float]) -> None:
    for _ in range(MOST_RUNNING):
        places.take(ONE)
    assert waits == []


def test_a_request_waits_no_longer_than_the_longest_time(
    places: Places, clock: Clock, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(MOST_RUNNING):
        places.take(ONE).taken_at = clock.now + 2 * LONGEST_WAIT
    monkeypatch.setattr(module, "LEASE", 2.0)
    with pytest.raises(ProcessorShareUsedError):
        places.take(ONE)
    assert waits == [2.0, 2.0, LONGEST_WAIT - 4.0]


def test_a_place_that_is_free_at_the_last_moment_is_taken(
    places: Places, clock: Clock, waits: list[float]
) -> None:
    for _ in range(MOST_RUNNING):
        places.take(ONE).taken_at = clock.now + LONGEST_WAIT - LEASE
    assert places.take(ONE).is_taken.is_set()
    assert sum(waits) == LONGEST_WAIT


def test_only_so_many_requests_hold_a_thread_while_they_wait_for_a_place(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 1)
    held = [places.take(ONE) for _ in range(MOST_RUNNING)]
    waiter = Waiter(places, ONE)
    with pytest.raises(ProcessorShareUsedError):
        places.take(ONE)
    places.leave(held[0])
    assert isinstance(waiter.end(), Place)
