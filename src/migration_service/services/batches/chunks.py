"""A chunk as a worker performs it: read, claim, work, finish.

    read    how many lines are to be done, which is the number of slots to acquire
    claim   commit the attempts that work on it, so that the database knows who holds the slots
    work    in one transaction, with the chunk locked: accounts, outcomes of the lines, counts
    finish  (in the same transaction) DONE, or released for its next piece

A worker that dies anywhere leaves a claim without a lock, which `feed.recover_chunks` and the next
worker see. Its outcomes are there as a whole or not at all, so no line is done twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, select, text, update
from sqlalchemy.orm import Session

from migration_service.errors import AccountCreationFailedError, ErrorItem
from migration_service.models import Batch, BatchChunk, BatchLine, ServiceLimit
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.schemas.json import encode_json
from migration_service.services.batches.attempts import ChunkJob
from migration_service.services.batches.brakes import apply_brake
from migration_service.services.batches.counts import recount
from migration_service.services.batches.lines import LineResult, LineToDo, work_on_lines
from migration_service.services.processing.attempts import MAX_TRIES, out_of_tries
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.states import BatchMode, BatchState, ChunkState, LineStatus, Profile, SupplierStatus


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """The key of a chunk."""

    batch_id: UUID
    first_line: int


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """What a worker needs to know before it claims a chunk."""

    #: How many lines to take at once. It is one if a worker died on the chunk, so that only the line that
    #: caused it fails.
    lines: int
    needs_slots: bool
    #: The concurrency limit in force, or None if it is off.
    limit: int | None


def read_chunk(session: Session, key: ChunkKey) -> ChunkPlan | None:
    """Return what is to be done in a chunk now, or None if nothing is.

    The batch is paused if its brake is reached.
    """
    row = session.execute(
        select(BatchChunk.tries, BatchChunk.counts, Batch.mode, Batch.brake, Batch.brake_since)
        .join(Batch, Batch.id == BatchChunk.batch_id)
        .where(_is(key), BatchChunk.state != ChunkState.DONE, Batch.state == BatchState.RUNNING)
    ).first()
    if row is None or (row.brake and apply_brake(session, key.batch_id, row.brake, row.brake_since)):
        return None
    lines = 1 if row.tries else row.counts.get(LineStatus.PENDING, 0)
    limit = session.scalar(select(ServiceLimit.concurrency_limit))
    return ChunkPlan(lines, BatchMode(row.mode).creates, limit)


def claim_chunk(session: Session, key: ChunkKey, attempts: Sequence[UUID]) -> bool:
    """Record the attempts that work on the chunk. Return False if another worker is working on it."""
    # If a crash of the server loses this, the worker has lost its connection as well.
    session.execute(text("SET LOCAL synchronous_commit = off"))
    free = select(BatchChunk.batch_id).where(_is(key), BatchChunk.state != ChunkState.DONE)
    if session.execute(free.with_for_update(skip_locked=True)).first() is None:
        return False
    session.execute(
        update(BatchChunk)
        .where(_is(key))
        .values(
            state=ChunkState.DISPATCHED,
            attempts=list(attempts),
            dispatched_at=func.now(),
            tries=BatchChunk.tries + 1,
        )
    )
    return True


def work_on_chunk(
    session: Session, key: ChunkKey, attempts: Sequence[UUID], *, line_seconds: float = 0.0
) -> int | None:
    """Bring at most as many pending lines to their outcome as there are `attempts`; how many are left to do.

    Return None, with nothing done, if the claim is no longer valid or the batch is not running.
    """
    chunk = session.execute(
        select(BatchChunk)
        .where(_is(key), BatchChunk.attempts == list(attempts))
        .with_for_update(skip_locked=True)
    ).scalar_one_or_none()
    if chunk is None:
        return None
    batch = session.get_one(Batch, key.batch_id)
    supplier = get_import_supplier_by_id(session, batch.import_supplier_id)
    ongoing = supplier.status == SupplierStatus.ONGOING or batch.mode == BatchMode.VALIDATE
    if batch.state != BatchState.RUNNING or not ongoing:
        _give_back(session, key)
        return None
    job = ChunkJob(
        supplier,
        BatchMode(batch.mode),
        batch.operations_team_id,
        batch.api_key_id,
        key.batch_id,
        Profile(batch.profile or supplier.profile),
        line_seconds,
    )
    lines = _lines_to_do(session, chunk, len(attempts))
    out = chunk.tries > MAX_TRIES
    with acting_as(_origin_of(batch)):
        results = [_give_up(lines[0])] if out else work_on_lines(session, job, lines, attempts)
    _write_outcomes(session, key.batch_id, results)
    if batch.started_at is None:
        session.execute(
            update(Batch)
            .where(Batch.id == batch.id, Batch.started_at.is_(None))
            .values(started_at=func.now())
        )
    refused = sum(map(_was_refused, results)) if job.mode.creates else 0
    recount(session, key.batch_id, [key.first_line], worked=len(results), refused=refused)
    return int(chunk.counts.get(LineStatus.PENDING, 0)) - len(results)


def _origin_of(batch: Batch) -> Origin:
    """Return who acts when the lines of a batch are worked on: whoever started it."""
    return Origin(
        kind=ActorKind.SERVICE,
        api_key_id=batch.api_key_id,
        organisation_id=batch.organisation_id,
        address=batch.address,
        request_id=f"batch {batch.id}",
    )


def _was_refused(result: LineResult) -> bool:
    """Return whether a line failed before an attempt began, so that no attempt records the failure."""
    attempted = any(item.code == AccountCreationFailedError.code for item in result.errors)
    return result.status is LineStatus.FAILED and not attempted


def release_chunk(session: Session, key: ChunkKey, *, is_throttled: bool = True) -> None:
    """Give a chunk back that is not worked on any more now. `is_throttled`: because there were no slots."""
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
    rows = session.execute(
        select(
            BatchLine.line_number,
            BatchLine.payload,
            BatchLine.external_account_number,
            BatchLine.account_import_process_id,
        )
        .where(
            BatchLine.batch_id == chunk.batch_id,
            BatchLine.line_number.between(chunk.first_line, chunk.last_line),
            BatchLine.status == LineStatus.PENDING,
        )
        .order_by(BatchLine.line_number)
        .limit(limit)
    )
    return [LineToDo(*row) for row in rows]


def _give_up(line: LineToDo) -> LineResult:
    failure = out_of_tries()
    return LineResult(
        line.line_number, LineStatus.FAILED, line.external_account_number, errors=failure.errors
    )


def _write_outcomes(session: Session, batch_id: UUID, results: Sequence[LineResult]) -> None:
    rows = [
        {
            "line_number": result.line_number,
            "status": result.status,
            "external_account_number": _storable(result.external_account_number),
            "service_account_number": result.service_account_number,
            "errors": _storable_items(result.errors),
            "warnings": _storable_items(result.warnings),
        }
        for result in results
    ]
    session.execute(_WRITE_OUTCOMES, {"batch_id": batch_id, "results": encode_json(rows).decode()})


def _storable_items(items: Sequence[ErrorItem]) -> list[dict[str, str | None]] | None:
    return [{name: _storable(text) for name, text in item.to_dict().items()} for item in items] or None


def _storable(text: str | None) -> str | None:
    """Return a text that may come from a client without what PostgreSQL cannot store in JSONB.

    Otherwise the outcome of one line would be refused together with those of its whole chunk.
    """
    return text and text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


_WRITE_OUTCOMES = text("""
    UPDATE batch_line SET status = result.status, external_account_number = result.external_account_number,
        service_account_number = result.service_account_number,
        errors = result.errors, warnings = result.warnings
    FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS result (
        line_number bigint, status text, external_account_number text, service_account_number text,
        errors jsonb, warnings jsonb)
    WHERE batch_id = :batch_id AND batch_line.line_number = result.line_number
""")
