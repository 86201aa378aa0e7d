"""Removing what has been kept long enough: personal data is not kept for ever."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import ImportState

#: Lines, or payloads, that are removed in one transaction.
PIECE = 10_000


def remove_batch_lines(session: Session, *, after_days: int) -> int:
    """Remove lines, with their results, of batches that ended longer ago; how many.

    At most PIECE of them: the caller goes on until none is left. The batch and its counts stay.
    """
    removed = len(session.execute(_REMOVE_LINES, {"days": after_days, "limit": PIECE}).all())
    if removed < PIECE:
        session.execute(_MARK_REMOVED, {"days": after_days})
    return removed


def remove_payloads(session: Session, *, after_days: int) -> int:
    """Remove the staged payloads of accounts that were created longer ago; how many.

    At most PIECE of them. Reconciliation says then what it cannot compare any more.
    """
    return len(session.execute(_REMOVE_PAYLOADS, {"days": after_days, "limit": PIECE}).all())


_REMOVE_LINES = text("""
    DELETE FROM batch_line WHERE ctid = ANY (ARRAY(
        SELECT line.ctid FROM batch JOIN batch_line AS line ON line.batch_id = batch.id
        WHERE batch.finished_at < now() - make_interval(days => :days) AND batch.lines_removed_at IS NULL
        LIMIT :limit))
    RETURNING 1
""")

_MARK_REMOVED = text("""
    UPDATE batch SET lines_removed_at = now()
    WHERE finished_at < now() - make_interval(days => :days) AND lines_removed_at IS NULL
      AND NOT EXISTS (SELECT FROM batch_line WHERE batch_id = batch.id)
""")

_REMOVE_PAYLOADS = text(f"""
    UPDATE account_import_process SET payload = NULL, warnings = NULL
    WHERE id IN (SELECT id FROM account_import_process
                 WHERE state = '{ImportState.IMPORTED}' AND payload IS NOT NULL
                   AND account_created_at < now() - make_interval(days => :days)
                 LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING 1
""")
