"""A circuit breaker: calls to an unavailable vendor are suspended, so that they do not block threads.

Each process has one for each vendor. Sharing it through Redis would make payment instructions depend on
Redis, and would save only a few calls for each process when a vendor goes down.

No existing library fits. pybreaker holds a lock during the call, so threads would wait for each other while a
vendor hangs. Others let all threads retry simultaneously after the pause.
"""

import threading
import time
from collections.abc import Callable

from migration_service.errors import PaymentVendorUnavailableError


class NotCalledError(PaymentVendorUnavailableError):
    """The vendor was not called, because the circuit breaker is open."""


class CircuitBreaker:
    """Closed until `failures_to_open` calls in a row have failed, then open.

    While it is open, one call every `open_seconds` is allowed as a trial. A success closes it.
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
            # The trial blocks other calls for this time, even if its outcome is never recorded.
            self._next_trial_at = now + self._open_seconds
            return True

    def record_success(self) -> None:
        """Record that the vendor has responded, whatever the response."""
        with self._lock:
            self._failures = 0

    def record_failure(self) -> None:
        """Record that the vendor has not responded."""
        with self._lock:
            self._failures += 1
            self._next_trial_at = self._clock() + self._open_seconds
