"""How a worker tells Flower about its tasks: a quarter of a second's events in one message.

Celery sends a message for every few events of a worker that has something to do, three a task, and that
costs its main process more than everything else it does for the task.
"""

from typing import Any

from celery import bootsteps

#: Seconds that an event may wait for others.
_GATHERED_FOR = 0.25


class GatheredEvents(bootsteps.StartStopStep):
    """A step of the worker's consumer: started anew with each connection to the broker."""

    requires = ("celery.worker.consumer.events:Events",)

    def start(self, c: Any) -> None:
        """Have the events of `c`, the consumer, wait for each other."""
        dispatcher = c.event_dispatcher
        if dispatcher is None or dispatcher.on_send_buffered is None:
            return
        waits = False

        def flush() -> None:
            nonlocal waits
            waits = False
            # A connection that is lost meanwhile takes its events with it: they are news, not records.
            if dispatcher is c.event_dispatcher:
                dispatcher.flush()

        def flush_soon() -> None:
            nonlocal waits
            if not waits:
                waits = True
                c.timer.call_after(_GATHERED_FOR, flush)

        dispatcher.on_send_buffered = flush_soon
