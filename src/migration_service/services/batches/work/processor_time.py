"""The time of a piece of work: a bound, and a measurement of the wait for a processor."""

import time
from pathlib import Path

#: Seconds of processor time, and of wall-clock time, after which a worker validates no further lines of a
#: piece. The remaining work, in SQL, must fit into the time limit of a task as well.
PIECE_SECONDS, PIECE_CLOCK_SECONDS = 0.1, 1.0


class PieceTime:
    """The time for validating the lines of one piece, before their outcomes are written."""

    def __init__(self) -> None:
        self._processor_ends = time.thread_time() + PIECE_SECONDS
        self._clock_ends = time.monotonic() + PIECE_CLOCK_SECONDS

    def is_over(self) -> bool:
        """Return whether the time is up. On a busy machine the wall-clock limit is reached first."""
        return time.thread_time() > self._processor_ends or time.monotonic() > self._clock_ends


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
