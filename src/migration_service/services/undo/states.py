"""The states of an undo: the table of changes, and the only statements that make these changes.

(none)   -- start_undo     -->  RUNNING
RUNNING  -- cancel         -->  CANCELLED    accounts that a worker has at that moment are finished
RUNNING  -- complete_undo  -->  COMPLETED    every account has an outcome
"""

from typing import Any
from uuid import UUID

from sqlalchemy import Row, func, text
from sqlalchemy.orm import Session

from migration_service.errors import UndoStateError
from migration_service.models import Undo
from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record
from migration_service.states import UndoOutcome, UndoState


def cancel(session: Session, undo: Undo) -> None:
    """Lock the undo and make it CANCELLED. Raise UndoStateError unless it is RUNNING."""
    session.refresh(undo, with_for_update=True)
    if undo.state != UndoState.RUNNING:
        raise UndoStateError(f"The undo is {undo.state}. Only one that is RUNNING can be cancelled.")
    undo.state = UndoState.CANCELLED
    undo.finished_at = func.now()
    _tell_end(session, undo)


def complete_undo(session: Session, undo_id: UUID) -> bool:
    """Make a RUNNING undo COMPLETED if every account has an outcome. Return whether it has ended."""
    for row in session.execute(_COMPLETE, {"undo_id": undo_id}).all():
        _tell_end(session, row)
    return session.execute(_IS_OVER, {"undo_id": undo_id}).first() is not None


def _tell_end(session: Session, undo: Undo | Row[Any]) -> None:
    counted = session.execute(_COUNTS, {"undo_id": undo.id})
    data = {
        "undo_id": undo.id,
        "batch_id": undo.batch_id,
        "state": undo.state,
        "counts": {row.outcome: row.accounts for row in counted},
    }
    owner, supplier = undo.organisation_id, undo.import_supplier_id
    record(session, EventType.UNDO_ENDED, data, organisation_id=owner, import_supplier_id=supplier)


_COMPLETE = text(f"""
    UPDATE undo SET state = '{UndoState.COMPLETED}', finished_at = now()
    WHERE id = :undo_id AND state = '{UndoState.RUNNING}' AND NOT EXISTS (
        SELECT FROM undo_line WHERE undo_id = undo.id AND outcome = '{UndoOutcome.PENDING}')
    RETURNING id, batch_id, state, organisation_id, import_supplier_id
""")
_COUNTS = text(
    "SELECT outcome, count(*) AS accounts FROM undo_line WHERE undo_id = :undo_id GROUP BY outcome"
)
_IS_OVER = text("SELECT FROM undo WHERE id = :undo_id AND finished_at IS NOT NULL")
