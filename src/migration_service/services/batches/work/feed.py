"""The choice of the next chunks: a few of each organisation, so that none waits for another.

The batches of an organisation take turns within this share. The chunks in the database are the queue; a
message only tells that one is waiting. The worker that receives it takes the chunk whose turn it is, so an
organisation's chunks do not wait behind the messages of others. `recover_chunks` finds chunks whose message
was lost.
"""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.services.batches import states
from migration_service.services.batches.work.added_data.deferral import IS_DUE
from migration_service.services.batches.work.chunks import ChunkKey
from migration_service.states import BatchKind, BatchState, ChunkState


def dispatch_chunks(session: Session, in_flight: int, batch_id: UUID | None = None) -> list[tuple[UUID, int]]:
    """Mark the next chunks DISPATCHED, up to `in_flight` of each organisation.

    Return their batch and first line, for the caller to publish after the commit. The organisations take
    turns, starting with those that have the fewest chunks in the queue, and so do the batches of each.
    Batches also follow their API keys and suppliers here, and end: this one, or all that are open.
    Chunks of payment instructions are left to `dispatch_vendor_chunks`.
    """
    for follow in (states.end_batches, states.complete_batches, states.follow_keys, states.follow_suppliers):
        follow(session, batch_id)
    return _dispatch(session, in_flight, asks_vendors=False)


def dispatch_vendor_chunks(session: Session, in_flight: int) -> list[tuple[UUID, int]]:
    """Do the same for chunks of payment instructions, which have a separate share and queue."""
    return _dispatch(session, in_flight, asks_vendors=True)


def _dispatch(session: Session, in_flight: int, *, asks_vendors: bool) -> list[tuple[UUID, int]]:
    rows = session.execute(_DISPATCH, {"in_flight": in_flight, "asks_vendors": asks_vendors}).all()
    return [(row.batch_id, row.first_line) for row in sorted(rows, key=lambda row: (row.place, row.batch_id))]


def take_chunk(session: Session, *, asks_vendors: bool) -> ChunkKey | None:
    """Take a dispatched chunk of the organisation of which workers have, or just had, the fewest.

    Return None if no chunk is dispatched. The caller commits before processing it.
    """
    row = session.execute(_TAKE, {"asks_vendors": asks_vendors}).first()
    return ChunkKey(*row) if row else None


def recover_chunks(session: Session) -> list[list[UUID]]:
    """Release the chunks whose worker or message was lost. Return the attempts of each, which hold slots.

    A worker locks the chunk that it processes, so SKIP LOCKED skips exactly those. While workers are busy
    with chunks, an unread message may simply be waiting for one of them.
    """
    return [row.attempts or [] for row in session.execute(_RECOVER)]


# How many more chunks a rate-limited batch may be given. A full chunk has the lines of ten seconds, at most
# 100 and at least one (`intake.upload`). The budget covers ten seconds, or the time of one chunk if longer.
# Chunks in the queue and recently processed chunks count against it.
_CHUNK = "greatest(1, least(100, batch.lines_per_minute / 6))"
_SPAN = f"greatest(10, 60.0 * {_CHUNK} / batch.lines_per_minute)"
_ALLOWED = f"""CASE WHEN batch.lines_per_minute IS NOT NULL THEN (
    SELECT greatest(0, greatest(1, floor(batch.lines_per_minute * {_SPAN} / (60 * {_CHUNK}))) - count(*))
    FROM batch_chunk AS recent WHERE recent.batch_id = batch.id
      AND (recent.state = '{ChunkState.DISPATCHED}'
           OR abs(extract(epoch FROM now() - recent.worked_at)) < {_SPAN})) END"""
_IS_OURS = f"(batch.kind = '{BatchKind.PAYMENT_INSTRUCTIONS}') = :asks_vendors"

# `turn` includes the chunks that the organisation already has in the queue, so organisations with many come
# after those with few, however many batches they have. Its batches are drawn at random for each place.
# Otherwise, those beyond the number of chunks in the queue would get none until an older one ends.
_DISPATCH = text(f"""
    WITH busy AS MATERIALIZED (
        SELECT batch.organisation_id, count(*) AS chunks
        FROM batch_chunk JOIN batch ON batch.id = batch_chunk.batch_id
        WHERE batch_chunk.state = '{ChunkState.DISPATCHED}' AND batch.finished_at IS NULL AND {_IS_OURS}
        GROUP BY 1),
    next AS MATERIALIZED (
        SELECT batch.organisation_id, chunk.*,
               row_number() OVER (PARTITION BY chunk.batch_id ORDER BY chunk.first_line) AS place
        FROM batch CROSS JOIN LATERAL (
            SELECT batch_id, first_line FROM batch_chunk
            WHERE batch_id = batch.id AND state = '{ChunkState.PENDING}' AND {IS_DUE} ORDER BY first_line
            LIMIT least(:in_flight, {_ALLOWED}) FOR UPDATE SKIP LOCKED) AS chunk
        WHERE batch.finished_at IS NULL AND batch.state = '{BatchState.RUNNING}' AND {_IS_OURS}),
    chosen AS (
        SELECT next.batch_id, next.first_line, coalesce(busy.chunks, 0)
               + row_number() OVER (PARTITION BY organisation_id ORDER BY place, random()) AS turn
        FROM next LEFT JOIN busy USING (organisation_id))
    UPDATE batch_chunk SET state = '{ChunkState.DISPATCHED}', dispatched_at = now(), not_before = NULL
    FROM chosen
    WHERE batch_chunk.batch_id = chosen.batch_id AND batch_chunk.first_line = chosen.first_line
      AND chosen.turn <= :in_flight
    RETURNING batch_chunk.batch_id, batch_chunk.first_line, chosen.turn AS place
""")

# A chunk with attempts is with a worker. It has none yet until the worker has acquired slots. `turn` includes
# the chunks of the organisation that workers have, and those of which they have processed a part within the
# last seconds, even if they wait again. Therefore, a small batch does not share the workers with a large one,
# but comes before it. The commit need not wait for the disk: a crash of the server that undoes it also cuts
# the worker's connection.
_TAKE = text(f"""
    WITH sooner AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
    dispatched AS MATERIALIZED (
        SELECT batch_id, first_line, waits, row_number() OVER (
            PARTITION BY organisation_id ORDER BY waits, dispatched_at, first_line) AS turn
        FROM batch CROSS JOIN LATERAL (
            SELECT *, attempts IS NULL AS waits FROM batch_chunk
            WHERE batch_id = batch.id AND state = '{ChunkState.DISPATCHED}'
            UNION ALL
            SELECT *, false FROM batch_chunk WHERE batch_id = batch.id
              AND worked_at > now() - interval '5 seconds') AS chunk
        WHERE batch.finished_at IS NULL AND batch.state = '{BatchState.RUNNING}' AND {_IS_OURS}),
    next AS MATERIALIZED (
        SELECT batch_id, first_line
        FROM dispatched JOIN batch_chunk USING (batch_id, first_line) CROSS JOIN sooner
        WHERE waits AND batch_chunk.state = '{ChunkState.DISPATCHED}' AND attempts IS NULL
        ORDER BY turn, dispatched_at, first_line
        LIMIT 1 FOR UPDATE OF batch_chunk SKIP LOCKED)
    UPDATE batch_chunk SET attempts = '{{}}', dispatched_at = now()
    FROM next WHERE batch_chunk.batch_id = next.batch_id AND batch_chunk.first_line = next.first_line
    RETURNING batch_chunk.batch_id, batch_chunk.first_line
""")

# Workers have taken a chunk, or had one within the last seconds: on a busy machine it takes them some time
# to claim the next one.
_SOMEBODY_WORKS = """(
    EXISTS (SELECT FROM batch_chunk AS working
            WHERE working.attempts IS NOT NULL AND working.dispatched_at > now() - interval '60 seconds')
    OR EXISTS (SELECT FROM batch JOIN batch_chunk AS working ON working.batch_id = batch.id
               WHERE batch.finished_at IS NULL AND working.worked_at > now() - interval '20 seconds'))"""

# A worker that waits for a slot soon releases the chunk. One that processes it holds its lock
# once it has claimed it and, for payment instructions, asked the vendors. On a busy machine a message waits
# behind those of other chunks, each of which may take ten seconds. A time in the future is from before the
# clock was set back.
_RECOVER = text(f"""
    UPDATE batch_chunk SET state = '{ChunkState.PENDING}', attempts = NULL
    FROM (SELECT chunk.batch_id, chunk.first_line, chunk.attempts
          FROM batch_chunk AS chunk JOIN batch ON batch.id = chunk.batch_id,
               LATERAL (SELECT abs(extract(epoch FROM now() - chunk.dispatched_at)) AS seconds) AS age
          WHERE chunk.state = '{ChunkState.DISPATCHED}'
            AND (chunk.attempts IS NOT NULL AND kind = '{BatchKind.ACCOUNTS}' AND seconds > 5
                 OR chunk.attempts IS NOT NULL AND seconds > 15
                 OR seconds > 15 AND NOT {_SOMEBODY_WORKS} OR seconds > 90)
          FOR UPDATE OF chunk SKIP LOCKED) AS lost
    WHERE batch_chunk.batch_id = lost.batch_id AND batch_chunk.first_line = lost.first_line
    RETURNING lost.attempts
""")
