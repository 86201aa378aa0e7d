"""A heartbeat for health checks: a file whose modification time shows when a worker or beat was last active.

A health check that ran a Celery command every few seconds would cost more than the work that it monitors.
Reading the age of a file costs nothing.
"""

from pathlib import Path
from typing import Any

from celery.signals import after_task_publish, beat_init, heartbeat_sent


def show_heartbeat(path: Path) -> None:
    """Touch `path` while this process is active: with every heartbeat of a worker, or task sent by beat.

    A worker's heartbeat comes from the loop that takes messages, and stops while the broker is unavailable.
    """

    def touch(**_kwargs: Any) -> None:
        path.touch()

    def watch_beat(**_kwargs: Any) -> None:
        after_task_publish.connect(touch, weak=False)

    heartbeat_sent.connect(touch, weak=False)
    beat_init.connect(watch_beat, weak=False)
