"""Whether running batches make progress, and the reason if they do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import BatchCondition, BatchKind, BatchState, LineStatus

#: Seconds without a processed line after which a running batch counts as stalled.
STALLED_AFTER = 60.0
#: Workers count as starved if they waited for a processor for this share of their last pieces. A quarter to a
#: half is usual while there are single requests, which have priority (docs/operators/runbooks.md).
STARVING_FROM = 0.75


@dataclass(frozen=True, slots=True)
class Activity:
    """The recent activity of workers on a running batch with pending lines."""

    #: Seconds since a line was last processed, or since the batch was last started or resumed.
    idle_seconds: float
    #: Whether workers recently released chunks because no slots were free.
    is_throttled: bool
    #: The share of their last pieces for which workers waited for a processor. None if the system does not
    #: report it, or nothing was processed recently.
    processor_wait: float | None
    #: Whether a worker took a chunk within the last minute and has not finished it.
    is_taken: bool
    #: The queue of its chunks.
    queue: str

    @property
    def condition(self) -> BatchCondition | None:
        """Return the reason for slow or no progress, or None if the batch makes progress."""
        if self.is_throttled:
            return BatchCondition.THROTTLED
        starves = self.processor_wait is not None and self.processor_wait >= STARVING_FROM
        if self.idle_seconds > STALLED_AFTER:
            return BatchCondition.STARVING if starves and self.is_taken else BatchCondition.STALLED
        return BatchCondition.STARVING if starves else None


def read_activity(session: Session, batch_ids: Sequence[UUID]) -> dict[UUID, Activity]:
    """Return the activity of each of these batches that is running and has pending lines."""
    rows = session.execute(_ACTIVITY, {"batch_ids": [*batch_ids]})
    return {
        row.id: Activity(
            float(row.idle),
            bool(row.is_throttled),
            row.processor_wait,
            bool(row.is_taken),
            BatchKind(row.kind).queue,
        )
        for row in rows
    }


# A batch that was just resumed has not processed a line for long, though nothing is wrong. A chunk that was
# just published is no sign of work, so only outcomes count. A worker that hangs is stopped by its time limit
# of a minute.
_ACTIVITY = text(f"""
    SELECT batch.id, batch.kind, found.*, (
        SELECT avg(last.processor_wait) FROM (
            SELECT processor_wait FROM batch_chunk
            WHERE batch_id = batch.id AND worked_at > greatest(now() - interval '5 minutes', batch.runs_since)
            ORDER BY worked_at DESC LIMIT 5) AS last) AS processor_wait
    FROM batch CROSS JOIN LATERAL (
        SELECT extract(epoch FROM
                   now() - greatest(max(worked_at), batch.runs_since, batch.created_at)) AS idle,
               bool_or(throttled_at > now() - interval '30 seconds') AS is_throttled,
               bool_or(attempts IS NOT NULL AND dispatched_at > now() - interval '1 minute') AS is_taken,
               bool_or(counts ? '{LineStatus.PENDING}') AS has_pending
        FROM batch_chunk WHERE batch_id = batch.id) AS found
    WHERE batch.id = ANY (:batch_ids) AND batch.state = '{BatchState.RUNNING}' AND found.has_pending
""")
