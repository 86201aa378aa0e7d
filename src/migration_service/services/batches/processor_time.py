"""A limit on the processor time of a piece of work, in the main thread, which runs the tasks of a worker.

A web process works in threads, which nothing can interrupt. There the work is bounded by the bounds on its
input (docs/limits.md).
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

_Result = TypeVar("_Result")

#: Seconds after which the work is interrupted again, if the first time was in code that ignores exceptions.
_AGAIN = 0.5


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
