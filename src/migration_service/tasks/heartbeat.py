"""A heartbeat for health checks: a file whose time says when a worker or beat last did something.

A health check that started a Celery command every few seconds would cost more than the work that it watches.
Reading the age of a file costs nothing.
"""

from pathlib import Path
from typing import Any

from celery.signals import after_task_publish, beat_init, heartbeat_sent


def show_heartbeat(path: Path) -> None:
    """Touch `path` while this process works: a worker with every heartbeat, beat with every task it sends.

    A worker's heartbeat comes from the loop that takes messages, and stops while the broker is unavailable.
    """

    def touch(**_kwargs: Any) -> None:
        path.touch()

    def watch_beat(**_kwargs: Any) -> None:
        after_task_publish.connect(touch, weak=False)

    heartbeat_sent.connect(touch, weak=False)
    beat_init.connect(watch_beat, weak=False)
