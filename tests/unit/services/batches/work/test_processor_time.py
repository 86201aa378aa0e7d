"""What a limit on processor time leaves behind, and where there is none."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from migration_service.services.batches.work.processor_time import (
    ProcessorTimeExceededError,
    limit_processor_time,
)


def _spin(seconds: float) -> str:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return "done"


def _fail() -> None:
    raise ValueError("the work fails")


@pytest.fixture
def handler() -> Iterator[Callable[..., None]]:
    """What handles the signal outside of the work."""

    def handle(*_: object) -> None:
        raise AssertionError("the timer of the work went on")

    before = signal.signal(signal.SIGVTALRM, handle)
    yield handle
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("work", [lambda: _spin(0.01), lambda: _spin(60), _fail])
def test_neither_the_timer_nor_its_handler_outlives_the_work(
    handler: Callable[..., None], work: Callable[[], object]
) -> None:
    time_of_the_test, _ = signal.getitimer(signal.ITIMER_REAL)
    with suppress(ProcessorTimeExceededError, ValueError):
        limit_processor_time(0.2, work)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    # pytest-timeout has set it.
    assert signal.getitimer(signal.ITIMER_REAL)[0] >= min(time_of_the_test, 2)
    assert signal.getsignal(signal.SIGVTALRM) is handler


def test_the_work_has_the_time_that_was_given_and_no_more() -> None:
    begin = time.thread_time()
    with pytest.raises(ProcessorTimeExceededError):
        limit_processor_time(0.05, lambda: _spin(60))
    assert time.thread_time() - begin < 0.4
    assert limit_processor_time(1.0, lambda: _spin(0.7)) == "done"


@pytest.mark.parametrize("seconds", [0, -1.0])
def test_without_a_limit_nothing_is_interrupted(seconds: float) -> None:
    assert limit_processor_time(seconds, lambda: _spin(0.05)) == "done"


def test_there_is_no_limit_outside_the_main_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(limit_processor_time, 0.05, lambda: (_spin(0.2), threading.current_thread()))
        done, thread = found.result()
    assert done == "done"
    assert thread is not threading.main_thread()
