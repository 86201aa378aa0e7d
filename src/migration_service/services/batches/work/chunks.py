"""The steps in which a worker processes a chunk: read, claim, work, finish.

    read    how many lines are to be done, which is the number of slots to acquire
    claim   commit the attempts that process it, so that the database knows who holds the slots
    work    in one transaction, with the chunk locked: accounts, outcomes of the lines, counts
    finish  (in the same transaction) DONE, or released for its next piece

A worker that dies at any step leaves a claim without a lock, which `feed.recover_chunks` and the next worker
detect. Its outcomes are stored completely or not at all, so no line is processed twice.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Uuid, and_, bindparam, func, select, text, update
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_service.db.sql import OpenTransaction
from migration_service.models import Batch, BatchChunk
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.accounts.added_data import OpenAccount
from migration_service.services.accounts.erasure import erase_outcomes
from migration_service.services.batches import clock
from migration_service.services.batches.error_thresholds import apply_threshold
from migration_service.services.batches.results.counts import ALONE_AFTER, count_open, recount
from migration_service.services.batches.states import WINDOW_CLOSED, pause_for
from migration_service.services.batches.work.accounts import AccountWork
from migration_service.services.batches.work.added_data.deferral import LONGEST_DEFERRAL, wake_lines
from migration_service.services.batches.work.added_data.instructions import Answer, InstructionKey
from migration_service.services.batches.work.added_data.lines import AddedDataWork, read_wanted
from migration_service.services.batches.work.lines import (
    ChunkJob,
    ChunkPlan,
    LineToDo,
    LineWork,
    tell_outcomes,
    write_outcomes,
)
from migration_service.services.processing.attempts import MAX_TRIES
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.states import BatchKind, BatchMode, BatchState, ChunkState, LineStatus, SupplierStatus


@dataclass(frozen=True, slots=True)
class ChunkKey:
    batch_id: UUID
    first_line: int


def work_of(kind: str) -> LineWork:
    """Return the processing of lines of this kind."""
    return AddedDataWork() if BatchKind(kind).is_added_data else AccountWork()


def read_chunk(session: Session, key: ChunkKey) -> ChunkPlan | None:
    """Return the plan for the next lines of a chunk, or None if there is nothing to do.

    Pause the batch if its error threshold is reached or its window is closed.
    """
    of_chunk = (BatchChunk.tries, BatchChunk.counts, BatchChunk.not_before)
    of_batch = (Batch.organisation_id, Batch.kind, Batch.mode, Batch.runs_until)
    row = session.execute(
        select(*of_chunk, *of_batch, Batch.brake, Batch.brake_since)
        .join(Batch, Batch.id == BatchChunk.batch_id)
        .where(_is(key), BatchChunk.state != ChunkState.DONE, Batch.state == BatchState.RUNNING)
    ).first()
    if row is None or (row.brake and apply_threshold(session, key.batch_id, row.brake, row.brake_since)):
        return None
    if _is_over(session, row.runs_until):
        pause_for(session, key.batch_id, WINDOW_CLOSED)
        return None
    lines = 0 if row.not_before else count_open(row.counts)
    if not lines:
        return None
    if row.tries:
        lines = 1 if row.tries >= ALONE_AFTER else min(lines, ceil(sum(row.counts.values()) / _LESS))
    return work_of(row.kind).read_plan(session, row, lines)


#: The size of the pieces, as a share of the chunk, after a worker died on it.
_LESS = 16


def claim_chunk(session: Session, key: ChunkKey, attempts: Sequence[UUID]) -> bool:
    """Record the attempts for the chunk. Return False if another worker is processing it."""
    values = {"batch_id": key.batch_id, "first_line": key.first_line, "attempts": list(attempts)}
    return session.execute(_CLAIM, values).first() is not None


# The transaction is this one statement. Its commit need not be on disk: a crash of the server that loses it
# also cuts the worker's connection. A worker that chooses its own next chunk may lock this one for a moment,
# although it cannot have it. That is waited for if the chunk was just taken and nobody can be processing it.
_CLAIM = text(f"""
    WITH sooner AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
    taken AS (
        SELECT batch_id, first_line FROM batch_chunk CROSS JOIN sooner
        WHERE batch_id = :batch_id AND first_line = :first_line AND state <> '{ChunkState.DONE}'
          AND attempts = '{{}}'
        FOR UPDATE OF batch_chunk),
    known AS (
        SELECT batch_id, first_line FROM batch_chunk CROSS JOIN sooner
        WHERE batch_id = :batch_id AND first_line = :first_line AND state <> '{ChunkState.DONE}'
          AND attempts IS DISTINCT FROM '{{}}'
        FOR UPDATE OF batch_chunk SKIP LOCKED)
    UPDATE batch_chunk SET state = '{ChunkState.DISPATCHED}', attempts = :attempts, dispatched_at = now(),
        tries = batch_chunk.tries + 1
    FROM (TABLE taken UNION ALL TABLE known) AS free
    WHERE batch_chunk.batch_id = free.batch_id AND batch_chunk.first_line = free.first_line
    RETURNING batch_chunk.first_line
""").bindparams(bindparam("attempts", type_=ARRAY(Uuid)))


def work_on_chunk(
    session: Session,
    key: ChunkKey,
    attempts: Sequence[UUID],
    *,
    longest_deferral: float = LONGEST_DEFERRAL,
    answers: Mapping[InstructionKey, Answer] | None = None,
) -> int | None:
    """Process at most as many pending lines as there are `attempts`. Return the number of lines left.

    `answers` are the vendors' responses to the instructions from `read_wanted_instructions`. Do nothing and
    return None if the claim is no longer valid or the batch is not running.
    """
    watch = _ProcessorWait()
    # A worker that chooses its next chunk may lock this one for a moment, although it cannot have it.
    claimed = select(BatchChunk).where(_is(key), BatchChunk.attempts == list(attempts)).with_for_update()
    chunk = session.scalars(claimed).one_or_none()
    if chunk is None:
        return None
    batch = session.get_one(Batch, key.batch_id)
    work = work_of(batch.kind)
    job = _job_of(session, batch, chunk, answers)
    ongoing = job.supplier.status == SupplierStatus.ONGOING or job.mode is BatchMode.VALIDATE
    is_running = batch.state == BatchState.RUNNING and (ongoing or not work.needs_ongoing_supplier)
    if not is_running or _is_over(session, batch.runs_until):
        chunk.state, chunk.attempts, chunk.tries = ChunkState.PENDING, None, chunk.tries - 1
        return None
    woken = wake_lines(session, job.supplier.id, chunk, longest_deferral)
    lines = _lines_to_do(session, chunk, len(attempts))
    with acting_as(_origin_of(batch)):
        if chunk.tries > MAX_TRIES:
            results = [work.give_up(session, job, line) for line in lines[:1]]
        else:
            results = work.work(session, replace(job, may_defer=not woken.is_late), lines, attempts)
    write_outcomes(session, key.batch_id, results)
    tell_outcomes(session, batch, results)
    of_erased = [it.line_number for it in results if it.status not in _OF_LIVING_ACCOUNTS]
    erase_outcomes(session, job.supplier.id, key.batch_id, of_erased)
    if batch.started_at is None:
        unstarted = update(Batch).where(Batch.id == batch.id, Batch.started_at.is_(None))
        session.execute(unstarted.values(started_at=func.now()))
    recount(
        session,
        key.batch_id,
        [key.first_line],
        worked=sum(not result.status.is_open for result in results),
        refused=sum(result.is_refused for result in results),
        processor_wait=watch.read_share(),
    )
    return int(chunk.counts.get(LineStatus.PENDING, 0)) + woken.lines - len(results)


def read_wanted_instructions(
    session: Session, key: ChunkKey, limit: int, *, longest_deferral: float = LONGEST_DEFERRAL
) -> list[tuple[OpenAccount, dict[str, Any]]]:
    """Return the payment instructions of the next lines of a chunk, with their accounts.

    The caller must have claimed the chunk, so that `work_on_chunk` finds the same lines afterwards.
    """
    chunk = session.get_one(BatchChunk, (key.batch_id, key.first_line))
    job = _job_of(session, session.get_one(Batch, key.batch_id), chunk)
    wake_lines(session, job.supplier.id, chunk, longest_deferral)
    return read_wanted(session, job, _lines_to_do(session, chunk, limit))


def _job_of(
    session: Session, batch: Batch, chunk: BatchChunk, answers: Mapping[InstructionKey, Answer] | None = None
) -> ChunkJob:
    supplier = get_import_supplier_by_id(session, batch.import_supplier_id)
    return ChunkJob(
        chunk=chunk,
        supplier=supplier,
        kind=BatchKind(batch.kind),
        mode=BatchMode(batch.mode),
        options=batch.options,
        profile=Profile(batch.profile or supplier.profile),
        operations_team_id=batch.operations_team_id,
        api_key_id=batch.api_key_id,
        extracted_at=batch.extracted_at,
        sent_at=batch.created_at,
        answers=answers or {},
    )


#: Erased accounts have no lines with these outcomes.
_OF_LIVING_ACCOUNTS = (
    *(LineStatus.STAGED, LineStatus.WOULD_IMPORT, LineStatus.IMPORTED, LineStatus.DEFERRED),
    *(LineStatus.WOULD_REPLACE, LineStatus.REPLACED),
    *(LineStatus.WOULD_ADD, LineStatus.ADDED, LineStatus.ALREADY_ADDED),
)


def _is_over(session: Session, runs_until: datetime | None) -> bool:
    return runs_until is not None and runs_until <= clock.read_clock(session)


def _origin_of(batch: Batch) -> Origin:
    """Return the origin for processing the lines of a batch: whoever started it."""
    return Origin(
        kind=ActorKind.SERVICE,
        api_key_id=batch.api_key_id,
        organisation_id=batch.organisation_id,
        address=batch.address,
        request_id=f"batch {batch.id}",
    )


def release_chunk(session: Session, key: ChunkKey, *, is_throttled: bool = True) -> None:
    """Release a chunk that is not processed further now. `is_throttled` tells whether slots were missing."""
    free = select(BatchChunk.batch_id).where(_is(key), BatchChunk.state == ChunkState.DISPATCHED)
    if session.execute(free.with_for_update(skip_locked=True)).first():
        throttled = {"throttled_at": func.now()} if is_throttled else {}
        values = {"state": ChunkState.PENDING, "attempts": None, **throttled}
        session.execute(update(BatchChunk).where(_is(key)).values(values))


def _is(key: ChunkKey) -> ColumnElement[bool]:
    return and_(BatchChunk.batch_id == key.batch_id, BatchChunk.first_line == key.first_line)


def _lines_to_do(session: Session, chunk: BatchChunk, limit: int) -> list[LineToDo]:
    values = {"batch_id": chunk.batch_id, "first": chunk.first_line, "last": chunk.last_line, "limit": limit}
    statement = _LOCK_BY_ACCOUNT if chunk.by_account else _LOCK_RANGE
    return [LineToDo(*row) for row in OpenTransaction.of(session).lock(statement, values)]


# Locked before the accounts, as in erasure, which waits for the outcome of a line and then erases it.
_LOCK = f"""
    SELECT line_number, payload, external_account_number, account_import_process_id FROM batch_line
    WHERE batch_id = %(batch_id)s AND status = '{LineStatus.PENDING}' AND {{}}
    ORDER BY line_number LIMIT %(limit)s FOR UPDATE
"""
_LOCK_BY_ACCOUNT = _LOCK.format("chunk_line = %(first)s")
_LOCK_RANGE = _LOCK.format("line_number BETWEEN %(first)s AND %(last)s")


#: Statistics of a thread in Linux: nanoseconds on a processor, and nanoseconds ready but waiting for one.
_SCHEDULED = Path("/proc/thread-self/schedstat")


class _ProcessorWait:
    """A measurement of the time that this thread waits for a processor, starting now."""

    def __init__(self) -> None:
        self._began, self._waited = time.monotonic(), _read_waited()

    def read_share(self) -> float | None:
        """Return the share of time spent waiting, from 0 to 1, or None if the system does not report it."""
        waited, took = _read_waited(), time.monotonic() - self._began
        if waited is None or self._waited is None or took <= 0:
            return None
        return min(1.0, (waited - self._waited) / took)


def _read_waited() -> float | None:
    try:
        return int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None
