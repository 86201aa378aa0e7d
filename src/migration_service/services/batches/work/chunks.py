"""The steps in which a worker processes a chunk: read, claim, work, finish.

    read    how many lines are to be done, which is the number of slots to acquire
    claim   commit the attempts that process it, so that the database knows who holds the slots
    work    in one transaction, with the chunk locked: accounts, outcomes of the lines, counts
    finish  (in the same transaction) DONE, or released for its next piece

A worker that dies at any step leaves a claim without a lock, which `feed.recover_chunks` and the next worker
detect. Its outcomes are stored completely or not at all, so no line is processed twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Uuid, and_, bindparam, func, select, text, update
from sqlalchemy.orm import Session

from migration_service.errors import (
    AccountCreationFailedError,
    AccountNotStorableError,
    LineFailedUnexpectedlyError,
    ServiceError,
)
from migration_service.models import Batch, BatchChunk, BatchLine, ServiceLimit
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.accounts.added_data import OpenAccount
from migration_service.services.accounts.erasure import erase_outcomes
from migration_service.services.batches import clock
from migration_service.services.batches.error_thresholds import apply_brake
from migration_service.services.batches.results.counts import ALONE_AFTER, count_open, recount
from migration_service.services.batches.states import pause_by_window
from migration_service.services.batches.work.added_data.deferral import LONGEST_DEFERRAL, wake_lines
from migration_service.services.batches.work.added_data.instructions import Answer, InstructionKey
from migration_service.services.batches.work.added_data.lines import (
    PIECE_LINES,
    read_wanted,
    work_on_added_lines,
)
from migration_service.services.batches.work.attempts import ChunkJob, LineToDo
from migration_service.services.batches.work.lines import LineResult, work_on_lines
from migration_service.services.batches.work.outcomes import write_outcomes
from migration_service.services.batches.work.processor_time import ProcessorWait
from migration_service.services.batches.work.versions import note_versions
from migration_service.services.processing.attempts import MAX_TRIES, out_of_tries
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier_by_id
from migration_service.states import (
    BatchKind,
    BatchMode,
    BatchState,
    ChunkState,
    LineStatus,
    Profile,
    SupplierStatus,
)


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """The key of a chunk."""

    batch_id: UUID
    first_line: int


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The details of a chunk that a worker needs before it claims the chunk."""

    #: The number of lines to process together. Fewer after a worker died on the chunk or ran out of time, and
    #: one after the second time, so that only the faulty line fails.
    lines: int
    #: The organisation that needs a slot for each line, or None if the lines need no slots.
    slot_owner: int | None
    #: The concurrency limit in force, or None if it is off.
    limit: int | None
    #: Whether to ask payment vendors first.
    asks_vendors: bool = False


def read_chunk(session: Session, key: ChunkKey) -> ChunkPlan | None:
    """Return the plan for the next lines of a chunk, or None if there is nothing to do.

    Pause the batch if its error threshold is reached or its window is closed.
    """
    row = session.execute(
        select(
            BatchChunk.tries,
            BatchChunk.counts,
            BatchChunk.not_before,
            Batch.organisation_id,
            Batch.kind,
            Batch.mode,
            Batch.brake,
            Batch.brake_since,
            Batch.runs_until,
        )
        .join(Batch, Batch.id == BatchChunk.batch_id)
        .where(_is(key), BatchChunk.state != ChunkState.DONE, Batch.state == BatchState.RUNNING)
    ).first()
    if row is None or (row.brake and apply_brake(session, key.batch_id, row.brake, row.brake_since)):
        return None
    if _is_over(session, row.runs_until):
        pause_by_window(session, key.batch_id)
        return None
    lines = 0 if row.not_before else count_open(row.counts)
    if not lines:
        return None
    if row.tries:
        lines = 1 if row.tries >= ALONE_AFTER else min(lines, ceil(sum(row.counts.values()) / _LESS))
    if BatchKind(row.kind).is_added_data:
        asks_vendors = row.kind == BatchKind.PAYMENT_INSTRUCTIONS and row.mode != BatchMode.VALIDATE
        return ChunkPlan(min(lines, PIECE_LINES), slot_owner=None, limit=None, asks_vendors=asks_vendors)
    limit = session.scalar(select(ServiceLimit.concurrency_limit))
    return ChunkPlan(lines, row.organisation_id if BatchMode(row.mode).creates else None, limit)


#: The size of the pieces, as a share of the chunk, after a worker died on it.
_LESS = 16


def claim_chunk(session: Session, key: ChunkKey, attempts: Sequence[UUID]) -> bool:
    """Record the attempts for the chunk. Return False if another worker is processing it."""
    values = {"batch_id": key.batch_id, "first_line": key.first_line, "attempts": list(attempts)}
    return session.execute(_CLAIM, values).first() is not None


# The transaction is this one statement. Its commit need not be on disk: a crash of the server that loses it
# also cuts the worker's connection.
_CLAIM = text(f"""
    WITH sooner AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
    free AS (
        SELECT batch_id, first_line FROM batch_chunk CROSS JOIN sooner
        WHERE batch_id = :batch_id AND first_line = :first_line AND state <> '{ChunkState.DONE}'
        FOR UPDATE OF batch_chunk SKIP LOCKED)
    UPDATE batch_chunk SET state = '{ChunkState.DISPATCHED}', attempts = :attempts, dispatched_at = now(),
        tries = batch_chunk.tries + 1
    FROM free
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
    watch = ProcessorWait()
    chunk = session.execute(
        select(BatchChunk)
        .where(_is(key), BatchChunk.attempts == list(attempts))
        .with_for_update(skip_locked=True)
    ).scalar_one_or_none()
    if chunk is None:
        return None
    batch = session.get_one(Batch, key.batch_id)
    supplier = get_import_supplier_by_id(session, batch.import_supplier_id)
    kind = BatchKind(batch.kind)
    ongoing = supplier.status == SupplierStatus.ONGOING or batch.mode == BatchMode.VALIDATE
    ongoing = ongoing or kind.is_added_data
    if batch.state != BatchState.RUNNING or not ongoing or _is_over(session, batch.runs_until):
        _give_back(session, key)
        return None
    job = replace(_job_of(batch, supplier), answers=answers or {})
    woken = wake_lines(session, supplier.id, chunk, longest_deferral)
    lines = _lines_to_do(session, chunk, len(attempts))
    with acting_as(_origin_of(batch)):
        if chunk.tries > MAX_TRIES:
            results = [_give_up(line, kind) for line in lines[:1]]
        elif kind.is_added_data:
            results = work_on_added_lines(session, job, chunk, lines, may_defer=not woken.is_late)
        else:
            results = work_on_lines(session, job, lines, attempts)
    if not kind.is_added_data:
        note_versions(session, job, lines, results)
    write_outcomes(session, key.batch_id, results)
    of_erased = [it.line_number for it in results if it.status not in _OF_LIVING_ACCOUNTS]
    erase_outcomes(session, supplier.id, key.batch_id, of_erased)
    if batch.started_at is None:
        session.execute(
            update(Batch)
            .where(Batch.id == batch.id, Batch.started_at.is_(None))
            .values(started_at=func.now())
        )
    refused = sum(map(_was_refused, results)) if job.mode.creates and not kind.is_added_data else 0
    worked = sum(not result.status.is_open for result in results)
    paced = {"worked": worked, "refused": refused}
    recount(session, key.batch_id, [key.first_line], **paced, processor_wait=watch.read_share())
    return int(chunk.counts.get(LineStatus.PENDING, 0)) + woken.lines - len(results)


def read_wanted_instructions(
    session: Session,
    key: ChunkKey,
    limit: int,
    *,
    longest_deferral: float = LONGEST_DEFERRAL,
) -> list[tuple[OpenAccount, dict[str, Any]]]:
    """Return the payment instructions of the next lines of a chunk, with their accounts.

    The caller must have claimed the chunk, so that `work_on_chunk` finds the same lines afterwards.
    """
    chunk = session.get_one(BatchChunk, (key.batch_id, key.first_line))
    batch = session.get_one(Batch, key.batch_id)
    supplier = get_import_supplier_by_id(session, batch.import_supplier_id)
    wake_lines(session, supplier.id, chunk, longest_deferral)
    return read_wanted(session, _job_of(batch, supplier), _lines_to_do(session, chunk, limit))


def _job_of(batch: Batch, supplier: KnownSupplier) -> ChunkJob:
    return ChunkJob(
        supplier,
        BatchMode(batch.mode),
        batch.operations_team_id,
        batch.api_key_id,
        batch.id,
        Profile(batch.profile or supplier.profile),
        BatchKind(batch.kind),
        batch.options,
        batch.extracted_at,
    )


#: Erased accounts have no lines with these outcomes.
_OF_LIVING_ACCOUNTS = (
    LineStatus.STAGED,
    LineStatus.WOULD_IMPORT,
    LineStatus.IMPORTED,
    LineStatus.WOULD_ADD,
    LineStatus.ADDED,
    LineStatus.ALREADY_ADDED,
    LineStatus.DEFERRED,
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


_OF_ATTEMPTS = {AccountCreationFailedError.code, AccountNotStorableError.code}


def _was_refused(result: LineResult) -> bool:
    """Return whether a line failed before an attempt started, so that no attempt records the failure."""
    attempted = any(item.code in _OF_ATTEMPTS for item in result.errors)
    return result.status is LineStatus.FAILED and not attempted


def release_chunk(session: Session, key: ChunkKey, *, is_throttled: bool = True) -> None:
    """Release a chunk that is not processed further now. `is_throttled` tells whether slots were missing."""
    free = select(BatchChunk.batch_id).where(_is(key), BatchChunk.state == ChunkState.DISPATCHED)
    if session.execute(free.with_for_update(skip_locked=True)).first():
        throttled = {"throttled_at": func.now()} if is_throttled else {}
        values = {"state": ChunkState.PENDING, "attempts": None, **throttled}
        session.execute(update(BatchChunk).where(_is(key)).values(values))


def _is(key: ChunkKey) -> ColumnElement[bool]:
    return and_(BatchChunk.batch_id == key.batch_id, BatchChunk.first_line == key.first_line)


def _give_back(session: Session, key: ChunkKey) -> None:
    session.execute(
        update(BatchChunk)
        .where(_is(key))
        .values(state=ChunkState.PENDING, attempts=None, tries=BatchChunk.tries - 1)
    )


def _lines_to_do(session: Session, chunk: BatchChunk, limit: int) -> list[LineToDo]:
    statement = (
        select(
            BatchLine.line_number,
            BatchLine.payload,
            BatchLine.external_account_number,
            BatchLine.account_import_process_id,
            BatchLine.failed_at,
        )
        .where(BatchLine.batch_id == chunk.batch_id, BatchLine.status == LineStatus.PENDING)
        .order_by(BatchLine.line_number)
        .limit(limit)
        # Locked before the accounts, as in erasure, which waits for the outcome of a line and then erases it.
        .with_for_update()
    )
    of_range = BatchLine.line_number.between(chunk.first_line, chunk.last_line)
    own = BatchLine.chunk_line == chunk.first_line if chunk.by_account else of_range
    return [LineToDo(*row) for row in session.execute(statement.where(own))]


def _give_up(line: LineToDo, kind: BatchKind) -> LineResult:
    failure: ServiceError = out_of_tries()
    if kind.is_added_data:
        failure = LineFailedUnexpectedlyError(failure.detail)
    return LineResult(
        line.line_number, LineStatus.FAILED, line.external_account_number, errors=failure.errors
    )
