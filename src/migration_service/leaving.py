"""Graceful removal of a web server from its load balancer: SIGTERM takes effect some seconds late.

In the meantime the server works as usual, except that `/health/ready` answers 503. This only requires a main
process in Python that forks the others.
"""

import mmap
import signal
from types import FrameType

#: One byte, shared by a main process and all processes that it forks.
_MARK = mmap.mmap(-1, 1)


def is_leaving() -> bool:
    """Return whether the server of this process has been told to end."""
    return _MARK[0] == 1


def leave_before_ending(seconds: float) -> None:
    """Let this process obey SIGTERM `seconds` later. A second SIGTERM takes effect immediately."""
    obey = signal.getsignal(signal.SIGTERM)

    def leave(_number: int, _frame: FrameType | None) -> None:
        _MARK[0] = 1
        signal.signal(signal.SIGTERM, obey)
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, seconds)

    if seconds:
        signal.signal(signal.SIGTERM, leave)
