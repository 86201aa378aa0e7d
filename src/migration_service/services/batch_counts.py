"""Counts of batches: always sums over their chunks, which are counted from their lines.

No counter is ever raised, here or in Redis: whatever is killed, the counts are right.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, DateTime, bindparam, text
from sqlalchemy.orm import Session

_RECOUNT = text("""
    UPDATE batch_chunk SET
        counts = counted.counts, error_counts = counted.errors, warning_counts = counted.warnings,
        state = CASE WHEN counted.counts ? 'PENDING' THEN batch_chunk.state ELSE 'DONE' END,
        finished_at = CASE WHEN counted.counts ? 'PENDING' THEN NULL ELSE now() END,
        worked = batch_chunk.worked + :worked, tries = least(greatest(batch_chunk.tries - 1, 0), 1),
        attempts = NULL, dispatched_at = now()
    FROM batch_chunk AS chunk, LATERAL (
        SELECT (SELECT jsonb_object_agg(status, n) FROM (
                    SELECT status, count(*) AS n FROM batch_line
                    WHERE batch_id = chunk.batch_id AND line_number BETWEEN chunk.first_line AND chunk.last_line
                    GROUP BY status) AS by_status) AS counts,
               (SELECT coalesce(jsonb_object_agg(code, n), '{}') FROM (
                    SELECT error ->> 'code' AS code, count(DISTINCT line_number) AS n
                    FROM batch_line, jsonb_array_elements(errors) AS error
                    WHERE batch_id = chunk.batch_id AND line_number BETWEEN chunk.first_line AND chunk.last_line
                    GROUP BY 1) AS by_code) AS errors,
               (SELECT coalesce(jsonb_object_agg(code, n), '{}') FROM (
                    SELECT warning ->> 'code' AS code, count(DISTINCT line_number) AS n
                    FROM batch_line, jsonb_array_elements(warnings) AS warning
                    WHERE batch_id = chunk.batch_id AND line_number BETWEEN chunk.first_line AND chunk.last_line
                    GROUP BY 1) AS by_code) AS warnings
        ) AS counted
    WHERE chunk.batch_id = :batch_id AND (chunk.first_line = :first_line OR :first_line IS NULL)
      AND batch_chunk.batch_id = chunk.batch_id AND batch_chunk.first_line = chunk.first_line
""").bindparams(bindparam("first_line", type_=BigInteger))


def recount(session: Session, batch_id: UUID, first_line: int | None = None, *, worked: int = 0) -> None:
    """Count the lines of one chunk again, or of all chunks of a batch; no worker has them any more.

    A chunk without pending lines is DONE. `worked` lines got their outcome just now.
    """
    session.execute(_RECOUNT, {"batch_id": batch_id, "first_line": first_line, "worked": worked})


#: How far back the rate looks, in seconds.
RATE_WINDOW = 30


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a batch is."""

    #: Lines by status; only those that there are.
    counts: dict[str, int]
    #: Lines with this code among their errors, the most frequent first; the same for warnings.
    error_counts: dict[str, int]
    warning_counts: dict[str, int]
    #: Lines a second: lately while it runs, on the whole once it is over. None: nothing was done yet.
    rate: float | None


def count_lines(session: Session, batch_ids: list[UUID]) -> dict[UUID, dict[str, int]]:
    """The lines by status of several batches."""
    counts: dict[UUID, dict[str, int]] = {batch_id: {} for batch_id in batch_ids}
    for batch_id, status, n in session.execute(_COUNTS, {"batch_ids": batch_ids}):
        counts[batch_id][status] = n
    return counts


def get_progress(
    session: Session, batch_id: UUID, *, started_at: datetime | None, finished_at: datetime | None
) -> BatchProgress:
    """The counts and the rate of a batch."""
    found: dict[str, dict[str, int]] = {"counts": {}, "errors": {}, "warnings": {}}
    for kind, key, n in session.execute(_PROGRESS, {"batch_id": batch_id}):
        found[kind][key] = n
    counts = found["counts"]
    rate = None
    if started_at:
        since = {"batch_id": batch_id, "started_at": started_at, "finished_at": finished_at}
        rate = session.scalar(_RATE, since | {"window": RATE_WINDOW})
    return BatchProgress(counts, found["errors"], found["warnings"], float(rate) if rate else None)


def _sum(column: str) -> str:
    return f"""
        SELECT key, sum(CAST(value AS bigint)) AS n FROM batch_chunk, jsonb_each({column})
        WHERE batch_id = :batch_id GROUP BY key"""


_COUNTS: Any = text("""
    SELECT batch_id, key, CAST(sum(CAST(value AS bigint)) AS bigint)
    FROM batch_chunk, jsonb_each(counts) WHERE batch_id = ANY (:batch_ids) GROUP BY batch_id, key
""")

_PROGRESS = text(f"""
    SELECT kind, key, CAST(n AS bigint) FROM (
        SELECT 'counts' AS kind, * FROM ({_sum("counts")}) AS by_status
        UNION ALL SELECT 'errors', * FROM ({_sum("error_counts")}) AS by_code
        UNION ALL SELECT 'warnings', * FROM ({_sum("warning_counts")}) AS by_warning) AS counted
    ORDER BY kind, n DESC, key
""")

_RATE = text("""
    SELECT sum(worked) / greatest(0.001, extract(epoch FROM until - since))
    FROM (SELECT coalesce(:finished_at, now()) AS until,
                 CASE WHEN :finished_at IS NULL
                      THEN greatest(:started_at, now() - make_interval(secs => :window))
                      ELSE :started_at END AS since) AS span
    JOIN batch_chunk ON batch_id = :batch_id AND finished_at >= since
    GROUP BY since, until
""").bindparams(
    bindparam("started_at", type_=DateTime(timezone=True)),
    bindparam("finished_at", type_=DateTime(timezone=True)),
)
