"""Dispatches the chunks to work on next: a few of every running batch, so that none waits for another.

The chunks in the database are the queue. A message only makes a worker read one. `recover_chunks` finds those
whose message was lost.
"""

from collections.abc import Callable
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.batches.states import complete_batches, follow_keys, follow_suppliers
from migration_service.states import BatchState, ChunkState


def feed(sessions: sessionmaker[Session], in_flight: int, publish: Callable[[UUID, int], bool]) -> None:
    """Dispatch the chunks that are next. What cannot be published now is published by the sweep."""
    with sessions.begin() as session:
        chunks = dispatch_chunks(session, in_flight)
    for batch_id, first_line in chunks:
        if not publish(batch_id, first_line):
            return


def dispatch_chunks(session: Session, in_flight: int) -> list[tuple[UUID, int]]:
    """Mark the next chunks of every running batch DISPATCHED, up to `in_flight` of each.

    Return their batch and first line, for the caller to publish after the commit: one of each batch,
    then the next of each. Also change the states of batches that are complete, whose API key was revoked, or
    whose supplier's status has changed.
    """
    complete_batches(session)
    follow_keys(session)
    follow_suppliers(session)
    rows = session.execute(_DISPATCH, {"in_flight": in_flight}).all()
    return [(row.batch_id, row.first_line) for row in sorted(rows, key=lambda row: row.place)]


def recover_chunks(session: Session) -> int:
    """Release the chunks whose worker or message was lost. Return how many there were.

    A worker holds the lock of the chunk that it works on, so SKIP LOCKED skips exactly those.
    """
    return len(session.execute(_RECOVER).all())


_DISPATCH = text(f"""
    UPDATE batch_chunk SET state = '{ChunkState.DISPATCHED}', dispatched_at = now()
    FROM (
        SELECT next.*, row_number() OVER (PARTITION BY next.batch_id ORDER BY next.first_line) AS place
        FROM batch CROSS JOIN LATERAL (
            SELECT batch_id, first_line FROM batch_chunk
            WHERE batch_id = batch.id AND state = '{ChunkState.PENDING}' ORDER BY first_line
            LIMIT greatest(0, :in_flight - (
                SELECT count(*) FROM batch_chunk
                WHERE batch_id = batch.id AND state = '{ChunkState.DISPATCHED}'))
            FOR UPDATE SKIP LOCKED) AS next
        WHERE batch.state = '{BatchState.RUNNING}') AS chosen
    WHERE batch_chunk.batch_id = chosen.batch_id AND batch_chunk.first_line = chosen.first_line
    RETURNING batch_chunk.batch_id, batch_chunk.first_line, chosen.place
""")

# A worker that waits for a slot releases the chunk after two seconds. One that works on it holds its lock.
_RECOVER = text(f"""
    UPDATE batch_chunk SET state = '{ChunkState.PENDING}', attempts = NULL
    FROM (SELECT batch_id, first_line FROM batch_chunk
          WHERE state = '{ChunkState.DISPATCHED}' AND dispatched_at < now() - interval '15 seconds'
          FOR UPDATE SKIP LOCKED) AS lost
    WHERE batch_chunk.batch_id = lost.batch_id AND batch_chunk.first_line = lost.first_line
    RETURNING batch_chunk.first_line
""")
