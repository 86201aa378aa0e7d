"""The states of an undo: the table of changes, and the only statements that make these changes.

(none)   -- start_undo     -->  RUNNING
RUNNING  -- cancel         -->  CANCELLED    accounts that a worker has at that moment are finished
RUNNING  -- complete_undo  -->  COMPLETED    every account has an outcome
"""

from uuid import UUID

from sqlalchemy import func, text
from sqlalchemy.orm import Session

from migration_service.errors import UndoStateError
from migration_service.models import Undo
from migration_service.states import UndoOutcome, UndoState


def cancel(session: Session, undo: Undo) -> None:
    """Lock the undo and make it CANCELLED. Raise UndoStateError unless it is RUNNING."""
    session.refresh(undo, with_for_update=True)
    if undo.state != UndoState.RUNNING:
        raise UndoStateError(f"The undo is {undo.state}. Only one that is RUNNING can be cancelled.")
    undo.state = UndoState.CANCELLED
    undo.finished_at = func.now()


def complete_undo(session: Session, undo_id: UUID) -> bool:
    """Make a RUNNING undo COMPLETED if every account has an outcome. Return whether it has ended."""
    session.execute(_COMPLETE, {"undo_id": undo_id})
    return session.execute(_IS_OVER, {"undo_id": undo_id}).first() is not None


_COMPLETE = text(f"""
    UPDATE undo SET state = '{UndoState.COMPLETED}', finished_at = now()
    WHERE id = :undo_id AND state = '{UndoState.RUNNING}' AND NOT EXISTS (
        SELECT FROM undo_line WHERE undo_id = undo.id AND outcome = '{UndoOutcome.PENDING}')
""")
_IS_OVER = text("SELECT FROM undo WHERE id = :undo_id AND finished_at IS NOT NULL")
