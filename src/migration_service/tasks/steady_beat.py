"""Beat's scheduler, which measures intervals with a monotonic clock.

Celery's own scheduler stores the times of the last runs. If the clock is set back by an hour, nothing is due
for an hour. Here every task may run at the start, so nothing has to be stored.
"""

import logging
import time
from typing import Any, cast

from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule

logger = logging.getLogger(__name__)


class SteadyScheduler(Scheduler):
    """A scheduler that sends each entry at the start, and then once per interval."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due: dict[str, float] = {}
        super().__init__(*args, **kwargs)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Send the entries that are due. Return the seconds until the next one is due."""
        for name, entry in self.schedule.items():
            if self._due.get(name, 0.0) <= time.monotonic():
                self._due[name] = time.monotonic() + cast(schedule, entry.schedule).seconds
                self.apply_entry(entry, producer=self.producer)
        return max(0.0, min(self._due.values()) - time.monotonic())

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send the message of an entry, or log one line if the broker does not accept it now."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:
            logger.error("Beat could not send %s, and tries again when it is due: %s", entry.task, error)
