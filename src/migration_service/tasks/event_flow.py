"""Sending a worker's events to Flower in one message every quarter of a second.

A task has three events. Celery sends a message for every few events, which costs the main process of a busy
worker more than all its other work for the task.
"""

from typing import Any

from celery import bootsteps

#: The longest time that an event waits for others, in seconds.
_GATHERED_FOR = 0.25


class GatheredEvents(bootsteps.StartStopStep):
    """A step of the worker's consumer, started again with each connection to the broker."""

    requires = ("celery.worker.consumer.events:Events",)

    def start(self, c: Any) -> None:
        """Buffer the events of `c`, the consumer."""
        dispatcher = c.event_dispatcher
        if dispatcher is None or dispatcher.on_send_buffered is None:
            return
        waits = False

        def flush() -> None:
            nonlocal waits
            waits = False
            # If the connection is lost in the meantime, the events are lost. Nothing depends on them.
            if dispatcher is c.event_dispatcher:
                dispatcher.flush()

        def flush_soon() -> None:
            nonlocal waits
            if not waits:
                waits = True
                c.timer.call_after(_GATHERED_FOR, flush)

        dispatcher.on_send_buffered = flush_soon
