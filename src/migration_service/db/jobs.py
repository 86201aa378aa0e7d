"""Jobs that workers do in pieces: whose turn is next, and what came of a piece."""

from collections.abc import Sequence
from enum import Enum, auto
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session


class Progress(Enum):
    """The progress of a job after a piece of it."""

    #: There may be more to do.
    WORKED = auto()
    #: Others have locked what is left, or do a piece.
    WAITS = auto()
    #: It has ended, or does not exist.
    OVER = auto()


def take_due(session: Session, table: str, condition: str = "TRUE") -> Sequence[UUID]:
    """Return the next jobs of a table that nobody does, for the caller to publish a message for each.

    These are the oldest of each organisation, so that one with many does not delay others. `condition` is SQL
    for whether it is time for a job.
    """
    return session.scalars(text(_TAKE_DUE.format(table=table, condition=condition))).all()


_TAKE_DUE = """
    UPDATE {table} SET dispatched_at = clock_timestamp()
    WHERE id IN (SELECT id FROM {table}
                 WHERE id IN (SELECT DISTINCT ON (organisation_id) id FROM {table}
                              WHERE finished_at IS NULL AND {condition} ORDER BY organisation_id, id)
                   AND finished_at IS NULL
                   AND (dispatched_at IS NULL
                        OR abs(extract(epoch FROM clock_timestamp() - dispatched_at)) > 10)
                 FOR UPDATE SKIP LOCKED)
    RETURNING id
"""
