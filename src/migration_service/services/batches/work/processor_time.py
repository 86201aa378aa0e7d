"""The processor time of a piece of work: a limit, and a measurement of the wait for a processor.

The limit works in the main thread, which runs the tasks of a worker. A web process uses threads, which cannot
be interrupted. There, limits on the input bound the work (docs/limits.md).
"""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

_Result = TypeVar("_Result")

#: Seconds of processor time, and of wall-clock time, after which a worker validates no further lines of a
#: piece. The remaining work, in SQL, must fit into the time limit of a task as well.
PIECE_SECONDS, PIECE_CLOCK_SECONDS = 2.0, 5.0
#: Seconds until the work is interrupted again, in case the first interruption hit code that ignores
#: exceptions.
_AGAIN = 0.5


class PieceTime:
    """The time for validating the lines of one piece, before their outcomes are written."""

    def __init__(self) -> None:
        self._processor_ends = time.thread_time() + PIECE_SECONDS
        self._clock_ends = time.monotonic() + PIECE_CLOCK_SECONDS

    def is_over(self) -> bool:
        """Return whether the time is up. On a busy machine the wall-clock limit is reached first."""
        return time.thread_time() > self._processor_ends or time.monotonic() > self._clock_ends


class ProcessorTimeExceededError(Exception):
    """The work exceeded its limit of processor time."""


class _Interruption(BaseException):
    """Raised in the middle of the work. Handlers of ordinary exceptions do not catch it."""


def limit_processor_time(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Return the result of `work`. Raise ProcessorTimeExceededError if it takes more processor time.

    0 means no limit. Outside the main thread there is never a limit.
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
        # The interruption may have come after the work ended but before the timer was stopped.
        armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


#: Statistics of a thread in Linux: nanoseconds on a processor, and nanoseconds ready but waiting for one.
_SCHEDULED = Path("/proc/thread-self/schedstat")


class ProcessorWait:
    """A measurement of the time that this thread waits for a processor, starting now."""

    def __init__(self) -> None:
        self._began, self._waited = time.monotonic(), _read_waited()

    def read_share(self) -> float | None:
        """Return the share of time spent waiting, from 0 to 1, or None if the system does not report it."""
        waited, took = _read_waited(), time.monotonic() - self._began
        if waited is None or self._waited is None or took <= 0:
            return None
        return min(1.0, (waited - self._waited) / took)


def _read_waited() -> float | None:
    try:
        return int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None
