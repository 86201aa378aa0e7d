"""The chart of a report: how many lines or accounts were done in each part of a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from migration_service.services.reporting import report_sql as sql

#: Parts of the time of the chart: one for so many lines or accounts, within these bounds.
LINES_OF_PART, FEWEST_PARTS, MOST_PARTS = 400, 8, 60


@dataclass(frozen=True, slots=True)
class Rates:
    """How many lines or accounts were done in each part of a time."""

    since: datetime
    until: datetime
    #: Seconds of a part.
    width: float
    done: list[int]

    @property
    def highest(self) -> float:
        """Return the highest rate of a part, in lines or accounts per second."""
        return max(self.done) / self.width


def read_rates(session: Session, values: Mapping[str, Any]) -> Rates | None:
    """Return the lines of batches over time, or without batches the created accounts of the supplier.

    None: nothing was done yet. `values` are `import_supplier_id` and `batch_ids`.
    """
    if values["batch_ids"] is None:
        time, statement = sql.TIME_OF_ACCOUNTS, sql.ACCOUNTS_OVER_TIME
    else:
        time, statement = sql.TIME_OF_LINES, sql.LINES_OVER_TIME
    since, until, total = session.execute(time, values).one()
    if since is None:
        return None
    parts = min(max(total // LINES_OF_PART, FEWEST_PARTS), MOST_PARTS)
    width = max((until - since) / timedelta(seconds=1), 1.0) / parts
    done = [0] * parts
    for part, number in session.execute(statement, {**values, "since": since, "width": width}):
        done[min(part, parts - 1)] += number
    return Rates(since, until, width, done)
