"""Organisations share the turns of a web process: nobody waits behind all requests of another."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from unittest.mock import patch

import pytest

from migration_service.blueprints import turns as module
from migration_service.blueprints.turns import TURNS, Turns
from migration_service.errors import ServiceUnavailableError
from servers import wait_until


def _in_thread(action: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def _wait_in_line(turns: Turns, owner: str, order: list[str]) -> threading.Thread:
    """A request of `owner` that waits; when its turn has begun, it is in `order`."""
    before = _waiting(turns, owner)

    def take() -> None:
        with suppress(ServiceUnavailableError):  # long after the end of the test
            turns.take(owner)
            order.append(owner)

    thread = _in_thread(take)
    wait_until(lambda: _waiting(turns, owner) == before + 1, "the request in its line")
    return thread


def _waiting(turns: Turns, owner: str) -> int:
    return len(turns._waiting.get(owner, ()))


def _is_longer(order: list[str], length: int) -> bool:
    return len(order) > length


def test_whoever_comes_next_does_not_wait_for_one_who_has_every_turn_he_can_have() -> None:
    turns, order = Turns(), list[str]()
    for _ in range(TURNS - 1):
        turns.take("hostile")
    for _ in range(3):
        _wait_in_line(turns, "hostile", order)
    turns.take("quiet")  # at once, or this test does not end
    turns.give_back("quiet")
    assert order == []
    turns.give_back("hostile")
    turns.give_back("hostile")
    for place in range(2):
        turns.give_back("hostile")
        wait_until(partial(_is_longer, order, place), "the next turn")


def test_who_has_the_fewest_turns_is_next_however_many_wait_before_him() -> None:
    turns, order = Turns(), list[str]()
    with patch.object(module, "TURNS", 3):
        turns.take("hostile")
        turns.take("hostile")
        for _ in range(5):
            _wait_in_line(turns, "hostile", order)
        turns.take("other")
        late = _wait_in_line(turns, "quiet", order)
        turns.give_back("hostile")
        late.join(30)
        assert order == ["quiet"]


def test_everybody_gets_his_turn() -> None:
    turns, done = Turns(), list[str]()

    def work(owner: str) -> None:
        for _ in range(50):
            turns.take(owner)
            done.append(owner)
            turns.give_back(owner)

    threads = [_in_thread(partial(work, owner)) for owner in ["a"] * 20 + ["b"]]
    for thread in threads:
        thread.join(60)
    assert (done.count("a"), done.count("b")) == (1_000, 50)
    assert turns._taken.total() == 0
    assert turns._waiting == {}


def test_a_request_whose_turn_does_not_come_in_time_is_answered_503_and_leaves_the_line() -> None:
    turns = Turns(timeout=0.05)
    for _ in range(TURNS - 1):
        turns.take("one")
    with pytest.raises(ServiceUnavailableError):
        turns.take("one")
    assert _waiting(turns, "one") == 0
    turns.give_back("one")
    turns.take("one")


def test_beyond_so_many_waiting_requests_an_organisation_is_answered_503_at_once() -> None:
    turns, order = Turns(), list[str]()
    with patch.object(module, "MOST_WAITING", 2):
        for _ in range(TURNS - 1):
            turns.take("one")
        for _ in range(2):
            _wait_in_line(turns, "one", order)
        with pytest.raises(ServiceUnavailableError):
            turns.take("one")
        turns.take("other")


def test_who_has_gone_leaves_his_share_to_others() -> None:
    turns = Turns()
    turns.take("other")
    turns.give_back("other")
    with patch.object(module, "_PRESENT_SECONDS", 0.0):
        for _ in range(TURNS - 1):
            turns.take("one")
    assert set(turns._seen) == {"one"}
