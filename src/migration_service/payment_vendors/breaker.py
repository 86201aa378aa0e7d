"""A circuit breaker: a vendor that stays down is not called for a while, so that it does not block threads.

It is kept per vendor and per process. Sharing it through Redis would make a payment instruction depend on
Redis, and save no more than a few calls for each process when a vendor goes down.

The breakers at hand did not fit: pybreaker holds a lock while it calls, so that a vendor that hangs would be
asked by one thread at a time, each waiting for all before it; others let every thread try at once when the
pause is over.
"""

import threading
import time
from collections.abc import Callable


class CircuitBreaker:
    """Closed until `failures_to_open` calls in a row have failed; then open.

    While open, one call each `open_seconds` is let through as a trial. A success closes it.
    """

    def __init__(
        self, *, failures_to_open: int, open_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._failures_to_open = failures_to_open
        self._open_seconds = open_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._next_trial_at = 0.0

    def allows_call(self) -> bool:
        """Return whether a call may be made now. Its outcome must be recorded."""
        with self._lock:
            if self._failures < self._failures_to_open:
                return True
            now = self._clock()
            if now < self._next_trial_at:
                return False
            # Whoever gets the trial keeps the others out, also if its outcome is never recorded.
            self._next_trial_at = now + self._open_seconds
            return True

    def record_success(self) -> None:
        """Record that the vendor has answered, whatever the answer is."""
        with self._lock:
            self._failures = 0

    def record_failure(self) -> None:
        """Record that the vendor has not answered."""
        with self._lock:
            self._failures += 1
            self._next_trial_at = self._clock() + self._open_seconds
