"""Beat's scheduler: intervals that are measured by a clock that nobody can set.

Celery's own one keeps the moments of the last runs. If the clock is set back by an hour, nothing is due for
an hour. Every task here may run at the start, so nothing has to be kept.
"""

import time
from typing import Any, cast

from celery.beat import Scheduler
from celery.schedules import schedule


class SteadyScheduler(Scheduler):
    """Sends each entry at the start, and then once in its interval."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due: dict[str, float] = {}
        super().__init__(*args, **kwargs)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Send what is due. Return the seconds until something is due next."""
        for name, entry in self.schedule.items():
            if self._due.get(name, 0.0) <= time.monotonic():
                self._due[name] = time.monotonic() + cast(schedule, entry.schedule).seconds
                self.apply_entry(entry, producer=self.producer)
        return max(0.0, min(self._due.values()) - time.monotonic())
