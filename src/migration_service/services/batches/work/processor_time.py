"""The processor time of a piece of work: a limit on it, and how long the work waited for a processor.

The limit holds in the main thread, which runs the tasks of a worker. A web process works in threads, which
nothing can interrupt. There the work is bounded by the bounds on its input (docs/limits.md).
"""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

_Result = TypeVar("_Result")

#: Seconds of processor time, and of time by the clock, after which a worker validates no further line of a
#: piece. What is left to do then, in SQL, must fit into the time limit of a task as well.
PIECE_SECONDS, PIECE_CLOCK_SECONDS = 2.0, 5.0
#: Seconds after which the work is interrupted again, if the first time was in code that ignores exceptions.
_AGAIN = 0.5


class PieceTime:
    """How long a worker may go on validating the lines of one piece, before it writes their outcomes."""

    def __init__(self) -> None:
        self._processor_ends = time.thread_time() + PIECE_SECONDS
        self._clock_ends = time.monotonic() + PIECE_CLOCK_SECONDS

    def is_over(self) -> bool:
        """Return whether no further line is to be validated. On a busy machine the clock says so first."""
        return time.thread_time() > self._processor_ends or time.monotonic() > self._clock_ends


class ProcessorTimeExceededError(Exception):
    """The work took more processor time than it may."""


class _Interruption(BaseException):
    """Raised in the middle of the work. No handler of ordinary exceptions catches it."""


def limit_processor_time(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Return what `work` returns. Raise ProcessorTimeExceededError if it takes more processor time.

    0 means no limit. There is none either outside the main thread.
    """
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        return work()
    armed = True

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if armed:
            raise _Interruption

    before = signal.signal(signal.SIGVTALRM, interrupt)
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN)
            return work()
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _Interruption:
        raise ProcessorTimeExceededError from None
    finally:
        # The interruption may have come between the end of the work and that of the timer.
        armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


#: What Linux says of a thread: nanoseconds on a processor, and nanoseconds ready but waiting for one.
_SCHEDULED = Path("/proc/thread-self/schedstat")


class ProcessorWait:
    """How long this thread waits for a processor, from now on."""

    def __init__(self) -> None:
        self._began, self._waited = time.monotonic(), _read_waited()

    def read_share(self) -> float | None:
        """Return the share of the time since then, from 0 to 1. None if the system does not say it."""
        waited, took = _read_waited(), time.monotonic() - self._began
        if waited is None or self._waited is None or took <= 0:
            return None
        return min(1.0, (waited - self._waited) / took)


def _read_waited() -> float | None:
    try:
        return int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None
