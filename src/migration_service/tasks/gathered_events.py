"""Telling Flower of tasks some times a second, instead of three times for each task.

A task is received, started and finished. Celery publishes each of these events at once, which costs the main
process of a worker as much as everything else that it does for a short task.
"""

import time
from typing import Any

from celery.worker import consumer

#: Seconds for which events are gathered. They have their own times.
_GATHERED_FOR = 0.25


class Consumer(consumer.Consumer):
    """The part of a worker that takes messages, with gathered events."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due = 0.0
        super().__init__(*args, **kwargs)

    def on_send_event_buffered(self) -> None:
        """Publish what is in the buffer soon."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _GATHERED_FOR
            self.hub.call_later(_GATHERED_FOR, self._flush_events)

    def shutdown(self) -> None:
        """End, with the last events told."""
        self._flush_events()
        super().shutdown()
