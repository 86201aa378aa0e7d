"""Shares of a web process: who runs, who waits, and who is refused."""

import threading
import time
from collections.abc import Callable

import pytest

from migration_service import shares
from migration_service.errors import ShareUsedError

ONE, OTHER, HERE = 1, 2, "address:192.0.2.7"


class Clock:
    """A clock that stands still unless it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(shares, "LOOK_AGAIN", 0.01)
    return Clock()


@pytest.fixture
def places(clock: Clock) -> shares.Places:
    return shares.Places(clock)


class Waiter:
    """A request that waits in a thread of its own."""

    def __init__(self, wait: Callable[[], shares.Place | None]) -> None:
        self.answer: shares.Place | ShareUsedError | None = None
        self._wait = wait
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.answer = self._wait()
        except ShareUsedError as error:
            self.answer = error

    def waits(self) -> bool:
        self._thread.join(0.1)
        return self._thread.is_alive()

    def end(self) -> "shares.Place | ShareUsedError | None":
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.answer


def _run(places: shares.Places, owner: shares.Owner, number: int) -> list[shares.Place]:
    """Let so many requests of an owner run."""
    return [places.enter(owner) for _ in range(number)]


@pytest.mark.parametrize(
    ("total", "present", "share"), [(250, 1, 250), (250, 2, 125), (250, 3, 84), (4, 9, 1)]
)
def test_each_has_an_equal_share_and_at_least_one(total: int, present: int, share: int) -> None:
    assert shares.share_of(total, present) == share


def test_alone_an_organisation_runs_more_than_beside_another_one(places: shares.Places, clock: Clock) -> None:
    run = _run(places, ONE, shares.RUNNING_ALONE)
    further = Waiter(lambda: places.enter(ONE))
    assert further.waits()
    (other,) = _run(places, OTHER, 1)
    for place in run[: shares.RUNNING_ALONE - shares.RUNNING]:
        places.leave(place)
    assert further.waits(), "its share runs"
    places.leave(run[-1])
    assert isinstance(further.end(), shares.Place)
    places.leave(other)
    clock.now += shares.PRESENT_SECONDS
    assert (
        len(_run(places, ONE, shares.RUNNING_ALONE - shares.RUNNING)) == shares.RUNNING_ALONE - shares.RUNNING
    )


def test_an_organisation_whose_requests_only_wait_needs_nothing(places: shares.Places, clock: Clock) -> None:
    places.step_aside(places.enter(OTHER))
    clock.now += shares.PRESENT_SECONDS
    assert len(_run(places, ONE, shares.RUNNING_ALONE)) == shares.RUNNING_ALONE


def test_another_organisation_never_waits_for_one_that_was_there_before(places: shares.Places) -> None:
    _run(places, ONE, shares.RUNNING_ALONE)
    waiting = [Waiter(lambda: places.enter(ONE)) for _ in range(5)]
    assert len(_run(places, OTHER, shares.RUNNING)) == shares.RUNNING
    assert all(it.waits() for it in waiting)


def test_beside_others_a_request_that_waits_too_long_is_refused_and_alone_it_is_not(
    places: shares.Places, clock: Clock
) -> None:
    run = _run(places, ONE, shares.RUNNING_ALONE)
    further = Waiter(lambda: places.enter(ONE))
    clock.now += shares.LONGEST_WAIT + 1
    assert further.waits()
    (other,) = _run(places, OTHER, 1)
    assert isinstance(further.end(), ShareUsedError)
    places.leave(other)
    for place in run:
        places.leave(place)
    clock.now += shares.PRESENT_SECONDS
    assert len(_run(places, ONE, shares.RUNNING_ALONE)) == shares.RUNNING_ALONE


def test_an_organisation_leaves_threads_to_others(places: shares.Places) -> None:
    for _ in range(shares.THREADS - shares.THREADS_FOR_OTHERS):
        places.step_aside(places.enter(ONE))
    with pytest.raises(ShareUsedError):
        places.enter(ONE)
    for _ in range(shares.THREADS // 2):
        places.step_aside(places.enter(OTHER))
    with pytest.raises(ShareUsedError):
        places.enter(OTHER)


def _use_up(places: shares.Places, seconds: float) -> None:
    """Let a request of ONE use the processor for a while."""
    place = places.enter(ONE)
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    places.leave(place)


def test_after_a_dear_request_an_organisation_rests_while_others_are_there(
    places: shares.Places, clock: Clock
) -> None:
    (other,) = _run(places, OTHER, 1)
    _use_up(places, 2 * shares.ORDINARY_SECONDS)
    further = Waiter(lambda: places.enter(ONE))
    assert further.waits()
    assert len(_run(places, OTHER, 1)) == 1, "the other one does not"
    clock.now += shares.LONGEST_WAIT / 2
    assert isinstance(further.end(), shares.Place)
    places.leave(other)


def test_what_the_database_searched_for_a_request_is_dear_too(places: shares.Places, clock: Clock) -> None:
    (other,) = _run(places, OTHER, 1)
    (place,) = _run(places, ONE, 1)
    place.searched = 1.0
    places.leave(place)
    further = Waiter(lambda: places.enter(ONE))
    assert further.waits()
    clock.now += shares.LONGEST_WAIT / 2
    assert isinstance(further.end(), shares.Place)
    places.leave(other)


def test_alone_it_rests_never(places: shares.Places) -> None:
    _use_up(places, 2 * shares.ORDINARY_SECONDS)
    assert len(_run(places, ONE, shares.RUNNING_ALONE)) == shares.RUNNING_ALONE


def test_a_request_leaves_once_however_often_it_says_so(places: shares.Places) -> None:
    run = _run(places, ONE, shares.RUNNING_ALONE)
    for _ in range(3):
        places.leave(run[0])
        places.step_aside(run[0])
    assert len(_run(places, ONE, 1)) == 1
    assert Waiter(lambda: places.enter(ONE)).waits()


def test_a_request_that_steps_aside_lets_another_one_run_and_comes_back_in_its_turn(
    places: shares.Places,
) -> None:
    run = _run(places, ONE, shares.RUNNING_ALONE)
    further = Waiter(lambda: places.enter(ONE))
    assert further.waits()
    places.step_aside(run[0])
    assert isinstance(further.end(), shares.Place)
    back = Waiter(lambda: places.come_back(run[0]))
    assert back.waits()
    places.leave(run[1])
    assert back.end() is None


def test_an_address_delays_no_organisation_and_has_a_share_beside_them(places: shares.Places) -> None:
    _run(places, HERE, shares.RUNNING_ALONE)
    assert len(_run(places, ONE, shares.RUNNING_ALONE)) == shares.RUNNING_ALONE
    elsewhere = "address:192.0.2.8"
    assert len(_run(places, elsewhere, shares.RUNNING)) == shares.RUNNING
    assert Waiter(lambda: places.enter(elsewhere)).waits()


def test_many_threads_never_run_more_than_the_share(places: shares.Places) -> None:
    (_other,) = _run(places, OTHER, 1)
    lock, running, most = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal running, most
        for _ in range(20):
            place = places.enter(ONE)
            with lock:
                running += 1
                most = max(most, running)
            with lock:
                running -= 1
            places.leave(place)

    threads = [threading.Thread(target=work) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < most <= shares.RUNNING
