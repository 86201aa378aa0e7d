"""The histories of the database, and cursors that name one.

A restored database, and a copy that takes over, use transaction numbers again that the lost part of the
history has used. A cursor from that part would be ahead: events with lower numbers would never be shown to
its reader. So a cursor contains the history, which is the identifier of the server and its timeline, and an
event that must exist. A planned switch-over begins another timeline, too, but loses no event, so that every
cursor remains valid.

A dump is restored on a server with numbers of its own, most likely far lower ones. Its events become a
generation of their own, which comes before all events of the new server.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, select, text
from sqlalchemy.orm import Session

from migration_service.errors import (
    ErrorItem,
    EventCursorAheadError,
    EventCursorExpiredError,
    RequestFailedValidationError,
)
from migration_service.models import EventHistory
from migration_service.schemas.events import EventType
from migration_service.services.events.reading import HORIZON, Position
from migration_service.services.events.recording import record


@dataclass(frozen=True, slots=True)
class History:
    """A server of PostgreSQL, by the identifier of its data, and a timeline of it."""

    system_identifier: int
    timeline: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position, and the history in which it was read."""

    history: History
    position: Position

    def __str__(self) -> str:
        """Return the text for clients, to whom it means nothing."""
        return cursor_writer(self.history)(self.position)


def cursor_writer(history: History) -> Callable[[Position], str]:
    """Return the function that writes cursors of this history, which reading a feed does for each event."""
    beginning = f"{history.system_identifier:016x}-{history.timeline:x}"

    def write(position: Position) -> str:
        generation, transaction_id, id_ = position
        return f"{beginning}-{-generation:x}-{transaction_id:x}-{id_.hex}"

    return write


#: The text of the position before the oldest event.
START = "start"

_CURSOR = re.compile(r"([0-7][0-9a-f]{15})-([0-9a-f]{1,8})-([0-9a-f]{1,3})-([0-9a-f]{1,15})-([0-9a-f]{32})")


def parse_cursor(cursor: str) -> Cursor:
    """Return the cursor that a client sends. Raise RequestFailedValidationError if it is none."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        detail = "This is not a cursor of an event."
        raise RequestFailedValidationError(errors=[ErrorItem("invalid", detail, "cursor")])
    system_identifier, timeline, generation, transaction_id = (int(it, 16) for it in found.groups()[:4])
    position = Position(-generation, transaction_id, UUID(found[5]))
    return Cursor(History(system_identifier, timeline), position)


def follow_history(session: Session) -> History:
    """Return the current history of the database. If it has changed, record that first."""
    row = session.execute(_READ).one()
    if not _is_known(row):
        session.execute(_LOCK)
        row = session.execute(_READ).one()
        if not _is_known(row):
            _begin(session, row)
    return History(row.system_identifier, row.timeline)


def note_progress(session: Session) -> None:
    """Note a transaction number that the current history has reached, from which a later one may go back."""
    follow_history(session)
    session.execute(_NOTE_PROGRESS)


def locate(session: Session, organisation_id: int, cursor: Cursor) -> Position:
    """Return the position in this database of a cursor from any history.

    Raise EventCursorExpiredError if events that follow were removed, and EventCursorAheadError if the event
    at the cursor was lost, or is that of another feed. Call `tell_rewound` after the second, in a transaction
    that is committed, if `is_lost`.
    """
    current = follow_history(session)
    position = _find(session, organisation_id, cursor, current)
    if position is not None:
        return position
    is_ours = session.execute(_IS_OURS, _values(cursor)).scalar_one()
    oldest = session.execute(_OLDEST, {"organisation_id": organisation_id}).one_or_none()
    if is_ours and cursor.history == current and oldest and cursor.position < Position(*oldest):
        raise EventCursorExpiredError
    since = _find_last_certain(session, organisation_id, cursor) if is_ours else None
    raise EventCursorAheadError(cursor=str(Cursor(current, since)) if since else START, is_lost=is_ours)


def tell_rewound(session: Session, organisation_id: int, cursor: str) -> None:
    """Record that the feed of an organisation went back to `cursor`, once in each history."""
    follow_history(session)
    session.execute(_LOCK)
    if session.execute(_FIND_TOLD, {"organisation_id": organisation_id}).first() is None:
        record(session, EventType.FEED_REWOUND, {"cursor": cursor}, organisation_id=organisation_id)


def _is_known(row: Row[Any]) -> bool:
    return (row.system_identifier, row.timeline) == (row.known_identifier, row.known_timeline)


def _begin(session: Session, row: Row[Any]) -> None:
    is_restored = row.known_identifier is not None and row.is_copied
    if is_restored:
        session.execute(text("SET LOCAL statement_timeout = '10min'"))
        session.execute(_SET_APART)
        session.execute(_SET_CONSUMERS_BACK)
    history = EventHistory(
        system_identifier=row.system_identifier,
        timeline=row.timeline,
        is_restored=is_restored,
        reached_transaction_id=row.horizon,
    )
    session.add(history)
    session.flush()
    if is_restored:
        current = History(row.system_identifier, row.timeline)
        for last in session.execute(_LAST_OF_EACH).all():
            cursor = Cursor(current, Position(*last[1:]))
            tell_rewound(session, last.organisation_id, str(cursor))


def _find(session: Session, organisation_id: int, cursor: Cursor, current: History) -> Position | None:
    """Return the position of the event at the cursor, or None if it does not exist."""
    values = {"organisation_id": organisation_id, **_values(cursor)}
    row = session.execute(_FIND, values).one_or_none()
    if row is None and cursor.history != current:
        row = session.execute(_FIND_IN_GENERATIONS, values).one_or_none()
    return Position(*row) if row else None


def _values(cursor: Cursor) -> dict[str, Any]:
    return {"system_identifier": cursor.history.system_identifier, **cursor.position._asdict()}


def _find_last_certain(session: Session, organisation_id: int, cursor: Cursor) -> Position | None:
    """Return the last event that a reader has certainly seen who lost the event at the cursor."""
    rows = session.scalars(select(EventHistory).order_by(EventHistory.id)).all()
    of_cursor = [
        index
        for index, row in enumerate(rows)
        if History(row.system_identifier, row.timeline) == cursor.history and row is not rows[-1]
    ]
    if not of_cursor:
        return None
    own, *later = rows[of_cursor[-1] :]
    values = {
        "organisation_id": organisation_id,
        "generation": cursor.position.generation - sum(row.is_restored for row in later),
        "before": cursor.position.transaction_id
        if later[0].is_restored
        else min(cursor.position.transaction_id, own.reached_transaction_id),
    }
    row = session.execute(_LAST_BEFORE, values).one_or_none()
    return Position(*row) if row else None


# The name of a WAL file begins with the timeline that is written. The control file has it only at the next
# checkpoint. A row that a dump brought along has the number of the transaction that restored it.
_READ = text(f"""
    SELECT control.system_identifier, {HORIZON} AS horizon,
           CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS bit(32)) AS bigint) AS timeline,
           known.system_identifier AS known_identifier, known.timeline AS known_timeline,
           known.is_copied
    FROM pg_control_system() AS control LEFT JOIN (
        SELECT system_identifier, timeline,
               CAST(CAST(xmin AS text) AS bigint) <> written_by % 4294967296 AS is_copied
        FROM event_history ORDER BY id DESC LIMIT 1) AS known ON true
""")
# Readers may go on; whoever notices another history waits for the first who did.
_LOCK = text("LOCK TABLE event_history IN SHARE ROW EXCLUSIVE MODE")
_NOTE_PROGRESS = text(f"""
    UPDATE event_history
    SET reached_transaction_id = {HORIZON}, written_by = CAST(CAST(pg_current_xact_id() AS text) AS bigint)
    WHERE id = (SELECT max(id) FROM event_history) AND reached_transaction_id < {HORIZON}
""")
_SET_APART = text("""
    UPDATE event SET generation = generation - 1
    WHERE CAST(CAST(xmin AS text) AS bigint) <> transaction_id % 4294967296
""")
_SET_CONSUMERS_BACK = text("UPDATE event_consumer SET generation = generation - 1")
_LAST_OF_EACH = text("""
    SELECT organisation.id AS organisation_id, last.* FROM organisation CROSS JOIN LATERAL (
        SELECT generation, transaction_id, event.id AS event_id FROM event
        WHERE organisation_id = organisation.id AND generation < 0
        ORDER BY generation DESC, transaction_id DESC, event.id DESC LIMIT 1) AS last
""")
_FIND = text("""
    SELECT generation, transaction_id, id FROM event
    WHERE organisation_id = :organisation_id
      AND (generation, transaction_id, id) = (:generation, :transaction_id, :id)
""")
# Only after a restore: this reads the index of the whole feed of the organisation.
_FIND_IN_GENERATIONS = text("""
    SELECT generation, transaction_id, id FROM event
    WHERE organisation_id = :organisation_id AND transaction_id = :transaction_id AND id = :id
""")
# An event that another organisation has was not lost, nor one of a server that this database does not know.
_IS_OURS = text("""
    SELECT EXISTS (SELECT FROM event_history WHERE system_identifier = :system_identifier)
       AND NOT EXISTS (
           SELECT FROM organisation CROSS JOIN LATERAL (
               SELECT FROM event WHERE organisation_id = organisation.id
                 AND (generation, transaction_id, event.id) = (:generation, :transaction_id, :id)) AS theirs)
""")
_OLDEST = text("""
    SELECT generation, transaction_id, id FROM event WHERE organisation_id = :organisation_id
    ORDER BY generation, transaction_id, id LIMIT 1
""")
_LAST_BEFORE = text("""
    SELECT generation, transaction_id, id FROM event
    WHERE organisation_id = :organisation_id AND (generation, transaction_id) < (:generation, :before)
    ORDER BY generation DESC, transaction_id DESC, id DESC LIMIT 1
""")
_FIND_TOLD = text(f"""
    SELECT FROM event WHERE organisation_id = :organisation_id AND type = '{EventType.FEED_REWOUND}'
      AND created_at >= (SELECT noticed_at FROM event_history ORDER BY id DESC LIMIT 1)
""")
