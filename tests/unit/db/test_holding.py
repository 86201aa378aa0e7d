"""Threads that wait for a server that is away."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from migration_service.db import holding, known_commits
from migration_service.db.holding import Outage
from support.servers import wait_until


class Server:
    """A server that is away until `back` is set."""

    def __init__(self) -> None:
        self.back = threading.Event()
        self.asked = 0

    def answers(self) -> bool:
        self.asked += 1
        return self.back.is_set()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def pool(server: Server) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool
        server.back.set()


def later() -> float:
    return time.monotonic() + 60


def test_all_go_on_when_one_is_answered(server: Server, pool: ThreadPoolExecutor) -> None:
    outage = Outage(server.answers)
    waiting = [pool.submit(outage.wait, later()) for _ in range(3)]
    wait_until(lambda: server.asked, "a thread asks")
    assert outage.is_on()
    server.back.set()
    assert [it.result(60) for it in waiting] == [True] * 3
    assert not outage.is_on()


def test_few_wait_for_a_server_that_has_been_away_for_long(
    server: Server, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "HELD_IN_LONG_OUTAGES", 2)
    outage = Outage(server.answers)
    first = pool.submit(outage.wait, later())
    wait_until(outage.is_on, "the outage begins")
    monkeypatch.setattr(known_commits, "HOLD_SECONDS", 0.0)
    assert not outage.wait(time.monotonic()), "its time is over, and it leaves its place"
    second = pool.submit(outage.wait, later())
    wait_until(lambda: outage._places._value == 0, "both places are taken")
    assert not outage.wait(later())
    server.back.set()
    assert first.result(60)
    assert second.result(60)
    assert outage.wait(later()), "the next outage has just begun"
