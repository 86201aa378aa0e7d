"""The states of a batch: the table of changes, and the only statements that make these changes.

    (none)             -- start_batch -->  RUNNING, or PAUSED for a wave that has not started
    RUNNING, WAITING   -- PAUSE  -->  PAUSED
    PAUSED, STOPPED    -- RESUME -->  RUNNING
    any of these four  -- CANCEL -->  CANCELLED
    COMPLETED          -- REOPEN -->  RUNNING       failed lines are pending again
    RUNNING, WAITING   -- complete_batches -->  COMPLETED      every line has an outcome
    RUNNING, WAITING   -- follow_keys -->  PAUSED              the key that it runs under was revoked
    RUNNING, WAITING   -- pause_for -->  PAUSED                too many errors, or its wave's window is closed
    RUNNING, WAITING   -- follow_suppliers -->  RUNNING, WAITING, STOPPED
                          the supplier is       Ongoing, Paused,  Complete

A worker finishes the lines that it has when the state changes. A batch that is STOPPED or CANCELLED has ended
(`end_batches`) once no worker has lines of it, so that the event of its end has all outcomes.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, TextClause, func, text
from sqlalchemy.orm import Session

from migration_service.db.base import literals
from migration_service.errors import BatchStateError, ImportSupplierCompleteError, ImportSupplierPausedError
from migration_service.models import Batch
from migration_service.schemas.events import EventType
from migration_service.services.batches.results.counts import count_lines
from migration_service.services.events.recording import record
from migration_service.states import BatchKind, BatchMode, BatchState, ChunkState, SupplierStatus


@dataclass(frozen=True, slots=True)
class BatchChange:
    """A change requested by a client or an operator, from any of `sources` to `target`."""

    sources: tuple[BatchState, ...]
    target: BatchState


#: States in which a batch continues automatically.
OPEN = (BatchState.RUNNING, BatchState.WAITING)

PAUSE = BatchChange(OPEN, BatchState.PAUSED)
RESUME = BatchChange((BatchState.PAUSED, BatchState.STOPPED), BatchState.RUNNING)
CANCEL = BatchChange((*OPEN, BatchState.PAUSED, BatchState.STOPPED), BatchState.CANCELLED)
REOPEN = BatchChange((BatchState.COMPLETED,), BatchState.RUNNING)

#: The pause reason set by follow_keys.
API_KEY_REVOKED = "api_key_revoked"
#: The pause reason of a batch with too many errors.
ERROR_THRESHOLD_REACHED = "error_threshold_reached"
#: The pause reason of a batch whose wave waits for its first or next window.
WINDOW_CLOSED = "window_closed"


def change_batch(session: Session, batch: Batch, change: BatchChange) -> None:
    """Lock the batch and change its state. Raise BatchStateError if its state does not allow the change."""
    session.refresh(batch, with_for_update=True)
    if batch.state not in change.sources:
        raise BatchStateError(
            f"The batch is {batch.state}. This is only possible if it is {' or '.join(change.sources)}."
        )
    batch.state = change.target
    batch.reason = None
    batch.finished_at = None
    if change.target is BatchState.CANCELLED:
        session.flush()
        # A worker may be about to take a chunk that was dispatched, and does not see this transaction yet.
        end_batches(session, batch.id, _NONE_DISPATCHED)
        session.refresh(batch)
    if change.target is BatchState.RUNNING:
        batch.runs_since = func.clock_timestamp()
        batch.brake_since = func.now()  # whoever resumes it has seen the errors so far


def end_batches(session: Session, batch_id: UUID | None = None, condition: str = "") -> None:
    """End batches that are STOPPED or CANCELLED, and whose lines no worker has any more: all, or this one."""
    statement, values = _of(batch_id, _END.replace("{condition}", condition))
    for row in session.execute(statement, values).all():
        _tell_end(session, row)


def complete_batches(session: Session, batch_id: UUID | None = None) -> None:
    """Complete batches whose lines all have an outcome: all, or only this one."""
    for row in session.execute(*_of(batch_id, _COMPLETE)).all():
        _tell_end(session, row)


def follow_keys(session: Session, batch_id: UUID | None = None) -> None:
    """Pause batches whose API key was revoked. The key that resumes such a batch replaces it."""
    session.execute(*_of(batch_id, _FOLLOW_KEYS))


def pause_for(session: Session, batch_id: UUID, reason: str) -> Row[Any] | None:
    """Pause a batch for this reason. Return its organisation and supplier, or None if it is not running."""
    return session.execute(_PAUSE, {"batch_id": batch_id, "reason": reason}).one_or_none()


def follow_suppliers(session: Session, batch_id: UUID | None = None) -> None:
    """Make batches wait, continue or stop according to the status of their import supplier."""
    for row in session.execute(*_of(batch_id, _FOLLOW_SUPPLIERS)).all():
        if row.state == BatchState.STOPPED:
            end_batches(session, row.id, _NONE_DISPATCHED)


def _of(batch_id: UUID | None, statement: str) -> tuple[TextClause, dict[str, UUID]]:
    """Return the statement for one batch, or for all that are open, with its values."""
    if batch_id is None:
        return text(statement.format(which="")), {}
    return text(statement.format(which="AND batch.id = :batch_id")), {"batch_id": batch_id}


def _tell_end(session: Session, batch: Batch | Row[Any]) -> None:
    data = {
        "batch_id": batch.id,
        "kind": batch.kind,
        "mode": batch.mode,
        "state": batch.state,
        "counts": count_lines(session, [batch.id])[batch.id],
    }
    owner, supplier = batch.organisation_id, batch.import_supplier_id
    record(session, EventType.BATCH_ENDED, data, organisation_id=owner, import_supplier_id=supplier)


#: The columns of a batch that its events have.
_TOLD = "batch.id, batch.kind, batch.mode, batch.state, batch.organisation_id, batch.import_supplier_id"

_COMPLETE = f"""
    UPDATE batch SET state = '{BatchState.COMPLETED}', reason = NULL, finished_at = now()
    WHERE finished_at IS NULL AND state IN ({literals(OPEN)}) AND NOT EXISTS (
        SELECT FROM batch_chunk WHERE batch_id = batch.id AND batch_chunk.state <> '{ChunkState.DONE}')
      {{which}}
    RETURNING {_TOLD}
"""

# Only a worker that saw the batch run has attempts on a chunk of it.
_END = f"""
    UPDATE batch SET finished_at = now()
    WHERE finished_at IS NULL AND state IN ('{BatchState.STOPPED}', '{BatchState.CANCELLED}')
      AND NOT EXISTS (SELECT FROM batch_chunk WHERE batch_id = batch.id AND attempts IS NOT NULL)
      {{condition}} {{which}}
    RETURNING {_TOLD}
"""
_NONE_DISPATCHED = f"""AND NOT EXISTS (
    SELECT FROM batch_chunk WHERE batch_id = batch.id AND batch_chunk.state = '{ChunkState.DISPATCHED}')"""

# A batch started with a revoked key must not continue automatically.
_FOLLOW_KEYS = f"""
    UPDATE batch SET state = '{PAUSE.target}', reason = '{API_KEY_REVOKED}'
    FROM api_key
    WHERE api_key.id = batch.api_key_id AND api_key.revoked_at IS NOT NULL
      AND batch.finished_at IS NULL AND batch.state IN ({literals(PAUSE.sources)}) {{which}}
"""

_PAUSE = text(f"""
    UPDATE batch SET state = '{PAUSE.target}', reason = :reason
    WHERE id = :batch_id AND state IN ({literals(PAUSE.sources)})
    RETURNING organisation_id, import_supplier_id
""")

# A batch that only validates, or adds to existing accounts, does not need a supplier that accepts accounts.
_FOLLOW_SUPPLIERS = f"""
    UPDATE batch SET state = follow.state, reason = follow.reason,
        runs_since = CASE follow.state WHEN '{BatchState.RUNNING}' THEN now() ELSE runs_since END
    FROM import_supplier AS supplier
    JOIN (VALUES
            ('{SupplierStatus.ONGOING}', '{BatchState.RUNNING}', NULL),
            ('{SupplierStatus.PAUSED}', '{BatchState.WAITING}', '{ImportSupplierPausedError.code}'),
            ('{SupplierStatus.COMPLETE}', '{BatchState.STOPPED}', '{ImportSupplierCompleteError.code}')
        ) AS follow (status, state, reason) ON follow.status = supplier.status
    WHERE supplier.id = batch.import_supplier_id AND batch.finished_at IS NULL
      AND batch.state IN ({literals(OPEN)}) AND batch.state <> follow.state
      AND batch.mode <> '{BatchMode.VALIDATE}' AND batch.kind = '{BatchKind.ACCOUNTS}' {{which}}
    RETURNING {_TOLD}
"""
