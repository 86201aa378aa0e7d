"""Shares of a web process: who waits, for how long, and who is refused, by a clock that the test sets."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest

from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.errors import ProcessorShareUsedError
from migration_service.services.access import processor_shares
from migration_service.services.access.presence import Presence
from migration_service.services.access.processor_shares import LONGEST_WAIT, ProcessorShares

HEAVY, LIGHT, ADDRESS = 1, 2, "address:192.0.2.1"
SHARE = 0.25


class Clock:
    """A clock that sleeping advances."""

    def __init__(self) -> None:
        self.now = 1.0  # as on a machine that has just started
        self.slept = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


@pytest.fixture(autouse=True)
def _usual_turns() -> Iterator[None]:
    """Give threads their usual turns again."""
    usual = sys.getswitchinterval()
    yield
    sys.setswitchinterval(usual)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shares(clock: Clock) -> ProcessorShares:
    return ProcessorShares(SHARE, clock=clock, sleep=clock.sleep)


def _send(shares: ProcessorShares, clock: Clock, owner: int | str, seconds: float) -> float:
    """Send a request that costs so much processor time. Return the seconds that it waited."""
    before = clock.slept
    charged = shares.enter(owner)
    clock.now += seconds
    shares.charge(owner, seconds, charged)
    return clock.slept - before


def test_an_organisation_that_is_alone_never_waits(shares: ProcessorShares, clock: Clock) -> None:
    assert sum(_send(shares, clock, HEAVY, 0.1) for _ in range(100)) == 0


def test_beside_another_one_it_uses_no_more_than_its_share(shares: ProcessorShares, clock: Clock) -> None:
    began, used, light = clock.now, 0.0, 0.0
    while clock.now < began + 60:
        _send(shares, clock, HEAVY, 0.1)
        used += 0.1
        light += _send(shares, clock, LIGHT, 0.02)
    assert used / 60 == pytest.approx(SHARE, rel=0.1)
    assert light == 0


def test_two_that_send_ordinary_requests_use_up_the_process_together(
    shares: ProcessorShares, clock: Clock
) -> None:
    began, used = clock.now, 0.0
    while clock.now < began + 60:
        for owner in (HEAVY, HEAVY, HEAVY, LIGHT):
            _send(shares, clock, owner, 0.005)
            used += 0.005
    assert used / 60 == pytest.approx(1.0, abs=0.05)


def test_an_ordinary_request_that_follows_dear_ones_is_free_only_after_some_others(
    shares: ProcessorShares, clock: Clock
) -> None:
    for _ in range(30):
        _send(shares, clock, LIGHT, 0.02)
        _send(shares, clock, HEAVY, 0.1)
    dear, ordinary = (
        sum(_send(shares, clock, HEAVY, 0.005) + _send(shares, clock, LIGHT, 0.005) for _ in range(30))
        for _ in range(2)
    )
    assert dear > ordinary


def test_who_only_asks_now_and_then_slows_down_nobody(shares: ProcessorShares, clock: Clock) -> None:
    waited = 0.0
    for _ in range(20):
        _send(shares, clock, LIGHT, 0.003)
        waited += sum(_send(shares, clock, HEAVY, 0.1) for _ in range(10))
    assert waited == 0


def test_it_is_free_again_when_the_other_one_has_gone(shares: ProcessorShares, clock: Clock) -> None:
    for _ in range(10):
        _send(shares, clock, LIGHT, 0.1)
        _send(shares, clock, HEAVY, 0.3)
    assert clock.slept > 0
    clock.now += 60
    before = clock.slept
    assert sum(_send(shares, clock, HEAVY, 0.1) for _ in range(100)) == 0
    assert clock.slept == before


def test_requests_without_a_token_slow_down_no_organisation(shares: ProcessorShares, clock: Clock) -> None:
    for _ in range(20):
        _send(shares, clock, ADDRESS, 0.1)
        assert _send(shares, clock, HEAVY, 0.1) == 0
    assert clock.slept > 0, "the address waits"


def test_who_has_used_less_than_another_one_does_not_wait(shares: ProcessorShares, clock: Clock) -> None:
    _send(shares, clock, HEAVY, 5.0)
    assert sum(_send(shares, clock, LIGHT, 0.05) for _ in range(30)) == 0


def test_after_a_dear_request_the_next_ones_are_expected_to_be_dear_for_a_while(
    shares: ProcessorShares, clock: Clock
) -> None:
    shares.charge(LIGHT, 0.1)
    shares.charge(HEAVY, 5.0)
    assert shares.enter(HEAVY) == 0.1
    for _ in range(50):
        shares.charge(HEAVY, 0.002)
    assert shares.enter(HEAVY) == pytest.approx(0.002, rel=0.5)


def test_many_requests_at_once_begin_one_after_the_other_and_the_last_ones_are_refused(
    clock: Clock,
) -> None:
    waits: list[float] = []
    shares = ProcessorShares(SHARE, clock=clock, sleep=waits.append)
    shares.charge(LIGHT, 0.1)
    for _ in range(50):
        shares.charge(HEAVY, 0.2)
    clock.now += 2 * LONGEST_WAIT
    shares.charge(LIGHT, 0.1)
    with pytest.raises(ProcessorShareUsedError):
        for _ in range(100):
            shares.enter(HEAVY)
    assert waits.pop() == LONGEST_WAIT, "it waits before it is refused"
    gaps = [later - earlier for earlier, later in pairwise(waits)]
    assert gaps == pytest.approx([gaps[0]] * len(gaps))
    assert LONGEST_WAIT - gaps[0] < waits[-1] <= LONGEST_WAIT


def test_only_so_many_requests_hold_a_thread_while_they_wait(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor_shares, "MOST_WAITING", 3)
    release, waiting = threading.Event(), threading.Semaphore(0)

    def sleep(_seconds: float) -> None:
        waiting.release()
        release.wait(30)

    shares = ProcessorShares(SHARE, clock=clock, sleep=sleep)
    shares.charge(LIGHT, 0.03)
    shares.charge(HEAVY, 0.05)
    while shares.enter(HEAVY) and shares._accounts[HEAVY].paid_at <= clock.now:
        pass
    threads = [threading.Thread(target=shares.enter, args=[HEAVY]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert waiting.acquire(timeout=30)
    with pytest.raises(ProcessorShareUsedError):
        shares.enter(HEAVY)
    release.set()
    for thread in threads:
        thread.join()
    assert shares._accounts[HEAVY].waiting == 0
    shares.enter(HEAVY)


def test_who_has_used_far_too_much_may_begin_again_after_the_longest_wait(
    shares: ProcessorShares, clock: Clock
) -> None:
    shares.charge(LIGHT, 1.0)
    shares.charge(HEAVY, 100.0, in_advance=0.001)
    with pytest.raises(ProcessorShareUsedError):
        shares.enter(HEAVY)
    assert clock.slept == LONGEST_WAIT
    assert shares.enter(HEAVY) == 0.1
    assert clock.slept == 2 * LONGEST_WAIT


def test_threads_take_short_turns_while_several_organisations_need_the_process(
    shares: ProcessorShares, clock: Clock
) -> None:
    usual = sys.getswitchinterval()
    turns = []
    for owner in (HEAVY, ADDRESS, LIGHT):
        clock.now += 1
        shares.charge(owner, 1.0)
        turns.append(sys.getswitchinterval())
    clock.now += 60
    shares.charge(HEAVY, 1.0)
    assert [*turns, sys.getswitchinterval()] == pytest.approx([usual, usual, 0.0005, usual])


def test_other_processes_are_told_once_a_second_what_is_used(clock: Clock) -> None:
    told: list[Mapping[int, float]] = []

    def exchange(used: Mapping[int, float]) -> Mapping[int, float]:
        told.append(used)
        return {}

    shares = ProcessorShares(SHARE, exchange, clock=clock)
    for owner in (HEAVY, LIGHT, ADDRESS):
        shares.charge(owner, 1.0)
    assert told == [{HEAVY: 1.0}]
    clock.now += 1
    shares.charge(LIGHT, 1.0)
    assert [{*used} for used in told] == [{HEAVY}, {HEAVY, LIGHT}]


def test_a_note_in_redis_holds_for_three_seconds(migrated: Settings) -> None:
    redis = make_redis(migrated.redis_url)

    def milliseconds() -> int:
        seconds, microseconds = redis.time()
        return seconds * 1_000 + microseconds // 1_000

    before = milliseconds()
    Presence(redis, "host:1").exchange({HEAVY: 0.5})
    expires = int(redis.hgetall("migration:present")[b"host:1 1"].split()[0])
    assert before + 3_000 <= expires <= milliseconds() + 3_000
    redis.connection_pool.disconnect()


def test_what_other_processes_use_is_summed_for_each_organisation(migrated: Settings) -> None:
    redis = make_redis(migrated.redis_url)
    one, two, three = (Presence(redis, f"host:{number}") for number in (1, 2, 3))
    one.exchange({HEAVY: 0.5, LIGHT: 0.25})
    two.exchange({HEAVY: 1.0})
    assert three.exchange({HEAVY: 8.0}) == {HEAVY: 1.5, LIGHT: 0.25}
    redis.connection_pool.disconnect()


def test_a_forked_process_is_another_one(migrated: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    redis = make_redis(migrated.redis_url)
    presence = Presence(redis)
    presence.exchange({HEAVY: 0.5})
    assert presence.exchange({}) == {}
    monkeypatch.setattr(os, "getpid", lambda: 0)
    assert presence.exchange({}) == {HEAVY: 0.5}
    redis.connection_pool.disconnect()


def test_redis_is_left_alone_for_a_while_after_it_was_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    redis = make_redis("redis://127.0.0.1:1/0")
    presence = Presence(redis)
    for _ in range(2):
        assert presence.exchange({HEAVY: 1.0}) == {}
    assert caplog.text.count("Redis is unavailable") == 1


def test_organisations_of_other_processes_count(clock: Clock, migrated: Settings) -> None:
    redis = make_redis(migrated.redis_url)
    busy, quiet = (
        ProcessorShares(SHARE, Presence(redis, name).exchange, clock=clock, sleep=clock.sleep)
        for name in ("host:1", "host:2")
    )
    assert sum(_send(busy, clock, HEAVY, 0.1) for _ in range(30)) == 0
    for _ in range(30):
        _send(quiet, clock, LIGHT, 0.02)
    _send(busy, clock, HEAVY, 0.1)
    assert sum(_send(busy, clock, HEAVY, 0.1) for _ in range(30)) > 0
    assert sum(_send(quiet, clock, LIGHT, 0.02) for _ in range(30)) == 0
    redis.connection_pool.disconnect()


def test_without_redis_each_process_knows_its_own(clock: Clock) -> None:
    redis = make_redis("redis://127.0.0.1:1/0")
    shares = ProcessorShares(SHARE, Presence(redis).exchange, clock=clock, sleep=clock.sleep)
    for _ in range(30):
        _send(shares, clock, HEAVY, 0.1)
        _send(shares, clock, LIGHT, 0.02)
    assert clock.slept > 0


def test_without_a_limit_nobody_waits(clock: Clock) -> None:
    told: list[Mapping[int, float]] = []

    def exchange(used: Mapping[int, float]) -> Mapping[int, float]:
        told.append(used)
        return {}

    shares = ProcessorShares(1.0, exchange, clock=clock, sleep=clock.sleep)
    for _ in range(50):
        _send(shares, clock, LIGHT, 0.5)
        _send(shares, clock, HEAVY, 0.5)
    assert shares.enter(HEAVY) == clock.slept == 0
    assert not shares.is_needed_by_others(LIGHT)
    assert told == []


def test_a_process_is_needed_by_others_only_while_they_send_requests(
    shares: ProcessorShares, clock: Clock
) -> None:
    assert not shares.is_needed_by_others(HEAVY)
    shares.charge(HEAVY, 1.0)
    assert not shares.is_needed_by_others(HEAVY)
    assert shares.is_needed_by_others(LIGHT)
    assert shares.is_needed_by_others(ADDRESS)
    clock.now += 60
    assert not shares.is_needed_by_others(LIGHT)
