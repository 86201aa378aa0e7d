"""Beat's scheduler: intervals that are measured by a clock that nobody can set.

Celery's own one keeps the moments of the last runs. If the clock is set back by an hour, nothing is due for
an hour. Every task here may run at the start, so nothing has to be kept.
"""

import logging
import time
from typing import Any, cast

from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule

logger = logging.getLogger(__name__)


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

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send the message of an entry, or say in one line that the broker does not take it now."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:
            logger.error("Beat could not send %s, and tries again when it is due: %s", entry.task, error)
