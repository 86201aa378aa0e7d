"""Ending a worker promptly. This is the only use of billiard. Neither it nor Celery has settings for this.

Three waits are made short, so that an idle worker ends in less than two seconds:

- The main process notices a signal only when its event loop wakes for another reason, up to a second later.
- A child that ends waits up to 30 seconds for its parent to count all its results. A result whose
  acknowledgement was lost with the connection to Redis is never counted. Nothing here depends on that count,
  because the outcome is in the database, so children may end after two seconds.
- Then it sleeps for a second, in which its parent may end it, but a parent that ends itself does not.
"""

import os
import threading
from typing import Any

from billiard import pool
from celery.signals import worker_init, worker_process_init, worker_process_shutdown, worker_shutting_down
from kombu.asynchronous import get_event_loop

#: How often a child checks, ten times a second, whether its results have been counted.
_ASKS = 20


def end_promptly() -> None:
    """Let this worker and its children end soon.

    It is called after everything else that connects to the signals of children, because a receiver after ours
    is not called when a child ends.
    """
    worker_init.connect(_ask_less_often)
    worker_process_init.connect(_be_last)
    worker_shutting_down.connect(_wake_the_loop)


def _ask_less_often(**_kwargs: Any) -> None:
    pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = _ASKS


def _be_last(**_kwargs: Any) -> None:
    worker_process_shutdown.connect(_end_child)


def _wake_the_loop(**_kwargs: Any) -> None:
    if loop := get_event_loop():
        # Only a call from another thread wakes it, and the signal handler runs in the loop's own.
        threading.Thread(target=loop.call_soon, args=(bool,)).start()


def _end_child(exitcode: int, **_kwargs: Any) -> None:
    os._exit(exitcode)
