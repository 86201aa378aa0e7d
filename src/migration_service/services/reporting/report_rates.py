"""The data of a report's chart: lines or accounts done in consecutive intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from migration_service.services.reporting import report_sql as sql

#: The number of intervals: one for this many lines or accounts, within these bounds.
LINES_OF_PART, FEWEST_PARTS, MOST_PARTS = 400, 8, 60


@dataclass(frozen=True, slots=True)
class Rates:
    """The numbers of lines or accounts done in consecutive intervals."""

    since: datetime
    until: datetime
    #: The length of an interval in seconds.
    width: float
    done: list[int]

    @property
    def highest(self) -> float:
        """Return the highest rate of an interval, in lines or accounts per second."""
        return max(self.done) / self.width


def read_rates(session: Session, values: Mapping[str, Any]) -> Rates | None:
    """Return the lines of batches over time, or the created accounts of the supplier if there are no batches.

    Return None if nothing was done yet. `values` has `import_supplier_id` and `batch_ids`.
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
