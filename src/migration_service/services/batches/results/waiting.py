"""Batches whose open lines are all deferred, with the vendors they wait for and the time of the next try."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.errors import PaymentVendorUnavailableError
from migration_service.states import BatchState, ChunkState, LineStatus


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
    rows = session.execute(_WAITING, {"batch_ids": [*batch_ids]}).all()
    return {
        row.batch_id: Waiting(
            row.lines, _read_vendors(session, row.batch_id) if row.asks_vendors else [], row.next_try_at
        )
        for row in rows
    }


def _read_vendors(session: Session, batch_id: UUID) -> list[str]:
    payloads = session.scalars(_PAYLOADS, {"batch_id": batch_id})
    return sorted({str(json.loads(payload)["vendor"]) for payload in payloads})


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
