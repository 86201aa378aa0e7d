"""Whether running batches make progress, and what they wait for if they do not."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.errors import PaymentVendorUnavailableError
from migration_service.states import BatchCondition, BatchKind, BatchState, ChunkState, LineStatus

#: Seconds without a processed line after which a running batch counts as stalled.
STALLED_AFTER = 60.0
#: Workers count as starved if they waited for a processor for this share of their last pieces. A quarter to a
#: half is usual while there are single requests.
STARVING_FROM = 0.75


@dataclass(frozen=True, slots=True)
class Activity:
    """The recent activity of workers on a running batch with pending lines."""

    #: Seconds since a line was last processed, or since the batch was last started or resumed.
    #: Waits for its rate, or for workers that process other batches, do not count.
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
    return {
        id_: Activity(float(idle), bool(throttled), wait, bool(taken), BatchKind(kind).queue)
        for id_, kind, idle, throttled, taken, wait in session.execute(_ACTIVITY, {"batch_ids": [*batch_ids]})
    }


# A batch that was just resumed has not processed a line for long, though nothing is wrong. A chunk that was
# just published is no sign of work, so only outcomes count. The outcomes of other batches count, too, unless
# a worker has a chunk of this one. At a limited rate the next hundred lines have to be due. A worker that
# hangs is stopped by its time limit of a minute.
_ACTIVITY = text(f"""
    WITH queues AS MATERIALIZED (
        SELECT kind = '{BatchKind.PAYMENT_INSTRUCTIONS}' AS asks_vendors, max(last.worked_at) AS worked_at
        FROM batch CROSS JOIN LATERAL (
            SELECT max(worked_at) AS worked_at FROM batch_chunk WHERE batch_id = batch.id) AS last
        WHERE finished_at IS NULL GROUP BY 1)
    SELECT batch.id, batch.kind, found.idle, found.is_throttled, found.is_taken, (
        SELECT avg(last.processor_wait) FROM (
            SELECT processor_wait FROM batch_chunk
            WHERE batch_id = batch.id AND worked_at > greatest(now() - interval '5 minutes', batch.runs_since)
            ORDER BY worked_at DESC LIMIT 5) AS last) AS processor_wait
    FROM batch JOIN queues ON asks_vendors = (kind = '{BatchKind.PAYMENT_INSTRUCTIONS}') CROSS JOIN LATERAL (
        SELECT greatest(0, extract(epoch FROM now() - greatest(
                   max(worked_at)
                       + coalesce(make_interval(secs => 6000.0 / batch.lines_per_minute), interval '0'),
                   batch.runs_since, batch.created_at,
                   CASE WHEN NOT bool_or(attempts IS NOT NULL) THEN queues.worked_at END))) AS idle,
               bool_or(throttled_at > now() - interval '15 seconds') AS is_throttled,
               bool_or(attempts IS NOT NULL AND dispatched_at > now() - interval '1 minute') AS is_taken,
               bool_or(counts ? '{LineStatus.PENDING}') AS has_pending
        FROM batch_chunk WHERE batch_id = batch.id) AS found
    WHERE batch.id = ANY (:batch_ids) AND batch.state = '{BatchState.RUNNING}' AND found.has_pending
""")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A running batch with deferred lines and no pending ones."""

    #: The number of deferred lines.
    lines: int
    #: The vendors that the first of these lines wait for. Empty if all wait for accounts.
    vendors: list[str]
    #: The time of the next retry, which is earlier if an import batch of the supplier ends. None if all lines
    #: are being retried now.
    next_try_at: datetime | None


def read_waiting(session: Session, batch_ids: Sequence[UUID]) -> dict[UUID, Waiting]:
    """Return the Waiting of each of these batches that is running and has only deferred lines left."""
    waiting = {}
    for row in session.execute(_WAITING, {"batch_ids": [*batch_ids]}).all():
        payloads = session.scalars(_PAYLOADS, {"batch_id": row.batch_id}) if row.asks_vendors else ()
        vendors = sorted({str(json.loads(payload)["vendor"]) for payload in payloads})
        waiting[row.batch_id] = Waiting(row.lines, vendors, row.next_try_at)
    return waiting


_WAITING = text(f"""
    SELECT batch_id, CAST(sum(CAST(counts -> '{LineStatus.DEFERRED}' AS bigint)) AS bigint) AS lines,
           bool_or(warning_counts ? '{PaymentVendorUnavailableError.code}') AS asks_vendors,
           min(not_before) AS next_try_at
    FROM batch JOIN batch_chunk ON batch_chunk.batch_id = batch.id
    WHERE batch.id = ANY (:batch_ids) AND batch.state = '{BatchState.RUNNING}'
    GROUP BY batch_id
    HAVING bool_or(counts ? '{LineStatus.DEFERRED}') AND NOT bool_or(counts ? '{LineStatus.PENDING}')
""")

# A few lines of a few chunks, since a batch may have a million. Lines being retried are PENDING.
_PAYLOADS = text(f"""
    SELECT line.payload
    FROM (SELECT first_line FROM batch_chunk
          WHERE batch_id = :batch_id AND state <> '{ChunkState.DONE}'
            AND warning_counts ? '{PaymentVendorUnavailableError.code}'
            AND NOT counts ? '{LineStatus.PENDING}'
          ORDER BY first_line LIMIT 20) AS chunk
    CROSS JOIN LATERAL (
        SELECT payload FROM batch_line
        WHERE batch_id = :batch_id AND chunk_line = chunk.first_line
          AND (status = '{LineStatus.PENDING}' OR status = '{LineStatus.DEFERRED}'
               AND warnings @> '[{{"code": "{PaymentVendorUnavailableError.code}"}}]')
        ORDER BY line_number LIMIT 5) AS line
""")
