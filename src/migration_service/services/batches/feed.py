"""Which chunks are to be worked on now: a few of every running batch, so that none waits for another.

The chunks are the queue; a message only tells a worker to look at one. Lost ones are found by `recover`.
"""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session


def dispatch_chunks(session: Session, in_flight: int) -> list[tuple[UUID, int]]:
    """Mark the next chunks of every running batch DISPATCHED, up to `in_flight` of each.

    Answers their batch and first line, for the caller to publish after the commit: one of each batch,
    then the next of each. Also lets batches wait for their suppliers, go on, stop, and be complete.
    """
    session.execute(_COMPLETE)
    session.execute(_FOLLOW_KEY)
    session.execute(_FOLLOW_SUPPLIER)
    rows = session.execute(_DISPATCH, {"in_flight": in_flight}).all()
    return [(row.batch_id, row.first_line) for row in sorted(rows, key=lambda row: row.place)]


def recover_chunks(session: Session) -> int:
    """Give back chunks whose worker, or message, was lost; how many there were.

    A worker holds the lock of the chunk that it works on, so SKIP LOCKED passes over exactly those.
    """
    return len(session.execute(_RECOVER).all())


_COMPLETE = text("""
    UPDATE batch SET state = 'COMPLETED', reason = NULL, finished_at = now()
    WHERE state IN ('RUNNING', 'WAITING') AND NOT EXISTS (
        SELECT FROM batch_chunk WHERE batch_id = batch.id AND batch_chunk.state <> 'DONE')
""")

# What a revoked key started must not go on by itself. Whoever resumes the batch takes it over.
_FOLLOW_KEY = text("""
    UPDATE batch SET state = 'PAUSED', reason = 'api_key_revoked'
    FROM api_key
    WHERE api_key.id = batch.api_key_id AND api_key.revoked_at IS NOT NULL
      AND batch.state IN ('RUNNING', 'WAITING')
""")

# A batch that only validates needs no supplier that takes accounts.
_FOLLOW_SUPPLIER = text("""
    UPDATE batch SET state = follow.state, reason = follow.reason,
        finished_at = CASE follow.state WHEN 'STOPPED' THEN now() END
    FROM import_supplier AS supplier
    JOIN (VALUES ('Ongoing', 'RUNNING', NULL),
                 ('Paused', 'WAITING', 'import_supplier_paused'),
                 ('Complete', 'STOPPED', 'import_supplier_complete')
        ) AS follow (status, state, reason) ON follow.status = supplier.status
    WHERE supplier.id = batch.import_supplier_id AND batch.state IN ('RUNNING', 'WAITING')
      AND batch.state <> follow.state AND batch.mode <> 'validate'
""")

_DISPATCH = text("""
    UPDATE batch_chunk SET state = 'DISPATCHED', dispatched_at = now()
    FROM (
        SELECT next.*, row_number() OVER (PARTITION BY next.batch_id ORDER BY next.first_line) AS place
        FROM batch CROSS JOIN LATERAL (
            SELECT batch_id, first_line FROM batch_chunk
            WHERE batch_id = batch.id AND state = 'PENDING' ORDER BY first_line
            LIMIT greatest(0, :in_flight - (
                SELECT count(*) FROM batch_chunk WHERE batch_id = batch.id AND state = 'DISPATCHED'))
            FOR UPDATE SKIP LOCKED) AS next
        WHERE batch.state = 'RUNNING') AS chosen
    WHERE batch_chunk.batch_id = chosen.batch_id AND batch_chunk.first_line = chosen.first_line
    RETURNING batch_chunk.batch_id, batch_chunk.first_line, chosen.place
""")

# Who waits for a slot gives the chunk back after two seconds; who works on it holds its lock.
_RECOVER = text("""
    UPDATE batch_chunk SET state = 'PENDING', attempts = NULL
    FROM (SELECT batch_id, first_line FROM batch_chunk
          WHERE state = 'DISPATCHED' AND dispatched_at < now() - interval '15 seconds'
          FOR UPDATE SKIP LOCKED) AS lost
    WHERE batch_chunk.batch_id = lost.batch_id AND batch_chunk.first_line = lost.first_line
    RETURNING batch_chunk.first_line
""")
