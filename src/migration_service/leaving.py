"""Lets a web server leave its balancer before it ends: SIGTERM is obeyed some seconds after it has come.

Meanwhile the server goes on as always, and only `/health/ready` answers 503. That needs nothing of the server
but a main process in Python, which forks the others.
"""

import mmap
import signal
from types import FrameType

#: One byte, which a main process shares with all processes that it forks.
_MARK = mmap.mmap(-1, 1)


def is_leaving() -> bool:
    """Return whether the server of this process has been told to end."""
    return _MARK[0] == 1


def leave_before_ending(seconds: float) -> None:
    """Let this process obey SIGTERM `seconds` later. A second one is obeyed at once."""
    obey = signal.getsignal(signal.SIGTERM)

    def leave(_number: int, _frame: FrameType | None) -> None:
        _MARK[0] = 1
        signal.signal(signal.SIGTERM, obey)
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, seconds)

    if seconds:
        signal.signal(signal.SIGTERM, leave)
