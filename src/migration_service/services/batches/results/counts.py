"""Counts of batches, as sums over their chunks, whose own counts are taken from their lines.

A chunk is counted in the transaction that changes its lines, so the counts are right even after a crash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Double, bindparam, func, select, text
from sqlalchemy.orm import Session

from migration_service.db.base import literals
from migration_service.models import Batch, BatchChunk
from migration_service.services.batches.results.pace import Pace, Work, measure_pace, measure_rate
from migration_service.states import BatchState, ChunkState, LineStatus

_OPEN = literals(status for status in LineStatus if status.is_open)

#: Condition for the lines of a batch_chunk row: those in its range, or those that refer to it.
LINES_OF_CHUNK = """(
    SELECT * FROM batch_line WHERE NOT batch_chunk.by_account AND batch_line.batch_id = batch_chunk.batch_id
      AND line_number BETWEEN batch_chunk.first_line AND batch_chunk.last_line
    UNION ALL
    SELECT * FROM batch_line WHERE batch_chunk.by_account AND batch_line.batch_id = batch_chunk.batch_id
      AND batch_line.chunk_line = batch_chunk.first_line)"""

#: The number of lost workers after which a chunk is processed line by line, so that only one line fails.
ALONE_AFTER = 2

# Deferred lines are retried after five seconds, and then less and less often.
_LATER = """now() + greatest(interval '5 seconds',
                         least(interval '5 minutes', (now() - coalesce(deferred_since, now())) / 2))"""

#: The largest number of chunks that are counted by one statement.
_TOGETHER = 1_000
# Which chunks they are is there twice, so that the rows of the others are not read to be joined.
_RECOUNT = text(f"""
    WITH counted AS (
        SELECT batch_chunk.first_line AS chunk, found.counts, found.errors, found.warnings,
               found.staging, found.done, found.failures, found.warned
        FROM batch_chunk CROSS JOIN LATERAL (
            WITH line AS MATERIALIZED (
                SELECT line_number, status, errors, warnings, staging_result FROM {LINES_OF_CHUNK} AS own)
            SELECT (SELECT coalesce(jsonb_object_agg(status, n), '{{}}') FROM (
                        SELECT status, count(*) AS n FROM line GROUP BY status) AS by_status) AS counts,
                   (SELECT coalesce(jsonb_object_agg(code, n), '{{}}') FROM (
                        SELECT error ->> 'code' AS code, count(DISTINCT line_number) AS n
                        FROM line, jsonb_array_elements(errors) AS error GROUP BY 1) AS by_code) AS errors,
                   (SELECT coalesce(jsonb_object_agg(code, n), '{{}}') FROM (
                        SELECT warning ->> 'code' AS code, count(DISTINCT line_number) AS n
                        FROM line, jsonb_array_elements(warnings) AS warning GROUP BY 1) AS by_code)
                        AS warnings,
                   (SELECT coalesce(jsonb_object_agg(staging_result, n), '{{}}') FROM (
                        SELECT staging_result, count(*) AS n FROM line WHERE staging_result IS NOT NULL
                        GROUP BY 1) AS by_result) AS staging,
                   (SELECT count(*) FROM line WHERE status NOT IN ({_OPEN})) AS done,
                   (SELECT coalesce(jsonb_object_agg(codes, n), '{{}}') FROM (
                        SELECT (SELECT coalesce(string_agg(DISTINCT error ->> 'code', ' '), '-')
                                FROM jsonb_array_elements(errors) AS error) AS codes, count(*) AS n
                        FROM line WHERE status = '{LineStatus.FAILED}' GROUP BY 1) AS by_codes) AS failures,
                   (SELECT coalesce(jsonb_object_agg(codes, n), '{{}}') FROM (
                        SELECT CASE WHEN status = '{LineStatus.FAILED}' THEN
                                   (SELECT coalesce(string_agg(DISTINCT error ->> 'code', ' '), '-')
                                    FROM jsonb_array_elements(errors) AS error) ELSE '' END || '|' ||
                               (SELECT string_agg(DISTINCT warning ->> 'code', ' ')
                                FROM jsonb_array_elements(warnings) AS warning) AS codes, count(*) AS n
                        FROM line WHERE status NOT IN ({_OPEN}) AND warnings <> '[]' GROUP BY 1) AS by_codes)
                        AS warned
            ) AS found
        WHERE batch_id = :batch_id AND first_line = ANY (:first_lines))
    UPDATE batch_chunk SET
        counts = counted.counts, error_counts = counted.errors, warning_counts = counted.warnings,
        staging_counts = counted.staging,
        done = counted.done, failures = counted.failures, warned = counted.warned,
        state = CASE WHEN NOT counted.counts ?| ARRAY[{_OPEN}] THEN '{ChunkState.DONE}'
                     WHEN NOT counted.counts ? '{LineStatus.PENDING}' THEN '{ChunkState.PENDING}'
                     WHEN state = '{ChunkState.DONE}' THEN '{ChunkState.PENDING}' ELSE state END,
        finished_at = CASE WHEN NOT counted.counts ?| ARRAY[{_OPEN}] THEN now() END,
        deferred_since = CASE WHEN counted.counts ? '{LineStatus.DEFERRED}'
                              THEN coalesce(deferred_since, now()) END,
        not_before = CASE WHEN counted.counts ? '{LineStatus.DEFERRED}'
                           AND NOT counted.counts ? '{LineStatus.PENDING}' THEN {_LATER} END,
        worked = CASE state WHEN '{ChunkState.DONE}' THEN 0 ELSE worked + :worked END,
        worked_at = CASE WHEN :worked > 0 THEN clock_timestamp() ELSE worked_at END,
        processor_wait = CASE WHEN :worked > 0 THEN :processor_wait ELSE processor_wait END,
        throttled_at = CASE WHEN :worked > 0 THEN NULL ELSE throttled_at END,
        refused = refused + :refused,
        tries = least(greatest(tries - 1, 0), {ALONE_AFTER}),
        attempts = NULL, dispatched_at = clock_timestamp()
    FROM counted WHERE batch_id = :batch_id AND first_line = ANY (:first_lines) AND first_line = counted.chunk
""").bindparams(bindparam("processor_wait", type_=Double), bindparam("first_lines", type_=ARRAY(BigInteger)))


def recount(
    session: Session,
    batch_id: UUID,
    first_lines: Sequence[int] | None = None,
    *,
    worked: int = 0,
    refused: int = 0,
    processor_wait: float | None = None,
) -> None:
    """Recount the lines of these chunks, or of all chunks if None, and release the chunks from their workers.

    A chunk whose lines all have an outcome becomes DONE. A DONE chunk with pending lines is reopened. A chunk
    with only deferred lines left waits before its next turn. `worked` is the number of lines of each that
    have just got an outcome, and `refused` the number of these without an attempt. `processor_wait` is the
    share of the time for which the worker waited for a processor. The caller holds the locks of the chunks.
    """
    if first_lines is None:
        own = select(BatchChunk.first_line).where(BatchChunk.batch_id == batch_id)
        first_lines = session.scalars(own).all()
    values = {"batch_id": batch_id, "worked": worked, "refused": refused, "processor_wait": processor_wait}
    # A plan may look for each chunk in the whole list.
    for start in range(0, len(first_lines), _TOGETHER):
        session.execute(_RECOUNT, values | {"first_lines": first_lines[start : start + _TOGETHER]})


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a batch: numbers of lines by status, by code and by result of staging, and its rate."""

    counts: dict[str, int]
    error_counts: dict[str, int]
    warning_counts: dict[str, int]
    staging_counts: dict[str, int]
    #: Lines per second of running time: weighted towards recent chunks while it runs, afterwards of the whole
    #: run. None if unknown.
    rate: float | None
    #: The rate, and an estimate of the time left. None if it is not running, or too little has been measured.
    pace: Pace | None


def list_work(session: Session, batch_id: UUID) -> list[Work]:
    """Return the work on a batch from its start on, in at most 401 parts of a similar number of chunks."""
    rows = session.execute(_WORK, {"batch_id": batch_id})
    return [Work(float(row.at), row.lines, row.failed) for row in rows]


def count_open(counts: Mapping[str, int]) -> int:
    """Return the number of lines without an outcome, from counts by status."""
    return sum(counts.get(status, 0) for status in LineStatus if status.is_open)


def count_lines(session: Session, batch_ids: list[UUID]) -> dict[UUID, dict[str, int]]:
    """Return the number of lines by status of each of these batches."""
    return _add_up(session, "counts", batch_ids)


def count_error_codes(session: Session, batch_ids: list[UUID]) -> dict[UUID, dict[str, int]]:
    """Return the number of lines by code of their errors of each of these batches."""
    return _add_up(session, "error_counts", batch_ids)


def _add_up(session: Session, column: str, batch_ids: list[UUID]) -> dict[UUID, dict[str, int]]:
    counts: dict[UUID, dict[str, int]] = {batch_id: {} for batch_id in batch_ids}
    for batch_id, key, n in session.execute(_COUNTS[column], {"batch_ids": batch_ids}):
        counts[batch_id][key] = n
    return counts


def get_progress(session: Session, batch: Batch) -> BatchProgress:
    """Return the counts of a batch, its rate, and its pace if it runs."""
    found: dict[str, dict[str, int]] = {kind: {} for kind in ("counts", "errors", "warnings", "staging")}
    for kind, key, n in session.execute(_PROGRESS, {"batch_id": batch.id}):
        found[kind][key] = n
    work = list_work(session, batch.id)
    pace, rate = None, measure_rate(work, batch.lines_per_minute)
    if batch.state == BatchState.RUNNING:
        now = session.scalars(select(func.extract("epoch", func.now()))).one()
        pace = measure_pace(
            work[1:],
            since=(batch.runs_since or batch.created_at).timestamp(),
            now=float(now),
            pending=found["counts"].get(LineStatus.PENDING, 0),
            lines_per_minute=batch.lines_per_minute,
        )
        rate = pace.rate if pace else None
    return BatchProgress(found["counts"], found["errors"], found["warnings"], found["staging"], rate, pace)


_COUNTS = {
    column: text(f"""
        SELECT batch_id, key, CAST(sum(CAST(value AS bigint)) AS bigint)
        FROM batch_chunk, jsonb_each({column}) WHERE batch_id = ANY (:batch_ids) GROUP BY batch_id, key
    """)
    for column in ("counts", "error_counts")
}

_PROGRESS = text("""
    SELECT kind, key, CAST(sum(CAST(value AS bigint)) AS bigint) AS n
    FROM batch_chunk, LATERAL (
        SELECT 'counts' AS kind, * FROM jsonb_each(counts)
        UNION ALL SELECT 'errors', * FROM jsonb_each(error_counts)
        UNION ALL SELECT 'warnings', * FROM jsonb_each(warning_counts)
        UNION ALL SELECT 'staging', * FROM jsonb_each(staging_counts)) AS counted
    WHERE batch_id = :batch_id GROUP BY kind, key ORDER BY kind, n DESC, key
""")

# The start of the batch and the chunks done since. A large batch has thousands of chunks, so chunks processed
# one after the other are combined.
_WORK = text(f"""
    SELECT extract(epoch FROM started_at) AS at, CAST(0 AS bigint) AS lines, CAST(0 AS bigint) AS failed
    FROM batch WHERE id = :batch_id AND started_at IS NOT NULL
    UNION ALL
    SELECT extract(epoch FROM max(worked_at)), CAST(sum(worked) AS bigint), CAST(sum(failed) AS bigint)
    FROM (SELECT worked_at, worked, coalesce(CAST(counts ->> '{LineStatus.FAILED}' AS bigint), 0) AS failed,
                 ntile(400) OVER (ORDER BY worked_at) AS part
          FROM batch_chunk JOIN batch ON batch.id = batch_id
          WHERE batch_id = :batch_id AND worked > 0 AND worked_at >= batch.started_at) AS done
    GROUP BY part ORDER BY at
""")
