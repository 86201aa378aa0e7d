"""Whether running batches make progress, and if not, why."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import BatchCondition, BatchKind, BatchState, LineStatus

#: A running batch is stalled if no line was worked on for this many seconds.
STALLED_AFTER = 60.0
#: Workers starve if they waited for a processor during this share of the time of their last pieces. Beside
#: single requests, which go first, it is a quarter to a half (docs/operators/runbooks.md).
STARVING_FROM = 0.75


@dataclass(frozen=True, slots=True)
class Activity:
    """What workers did last for a running batch that has pending lines."""

    #: Seconds since a line was last worked on, or since the batch last began to run.
    idle_seconds: float
    #: Whether workers recently released chunks because no slots were free.
    is_throttled: bool
    #: The share of the time of their last pieces for which workers waited for a processor. None if the
    #: system does not say it, or nothing was worked on recently.
    processor_wait: float | None
    #: Whether a worker took a chunk within the last minute and has not finished it.
    is_taken: bool
    #: The queue whose workers take its chunks.
    queue: str

    @property
    def condition(self) -> BatchCondition | None:
        """Return why the batch makes little or no progress. None if it makes progress."""
        if self.is_throttled:
            return BatchCondition.THROTTLED
        starves = self.processor_wait is not None and self.processor_wait >= STARVING_FROM
        if self.idle_seconds > STALLED_AFTER:
            return BatchCondition.STARVING if starves and self.is_taken else BatchCondition.STALLED
        return BatchCondition.STARVING if starves else None


def read_activity(session: Session, batch_ids: Sequence[UUID]) -> dict[UUID, Activity]:
    """Return the activity of those of these batches that are running and have pending lines."""
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


# If the batch was resumed recently, no line was worked on for long, though nothing is wrong. A chunk that was
# just published is no sign of work, so only the outcomes count. A worker that is interrupted for long is
# ended by its time limit of a minute.
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
