"""The histories of the database, and cursors that name one.

A restored database, and a copy that takes over, use transaction numbers again that the lost part of the
history has used. A cursor from that part would be ahead: events with lower numbers would never be shown to
its reader. So a cursor contains the history, which is the identifier of the server and its timeline, and an
event that must exist. A planned switch-over begins another timeline, too, but loses no event, so that every
cursor remains valid. A cursor is signed for its organisation: what nobody was given is no sign of a loss.

A dump is restored on a server with numbers of its own, most likely far lower ones. Its events become a
generation of their own, which comes before all events of the new server.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest
from typing import Any
from uuid import UUID

from sqlalchemy import Row, select, text
from sqlalchemy.orm import Session

from migration_service.db.cancelling import allow_minutes
from migration_service.errors import EventCursorAheadError, EventCursorExpiredError, EventCursorInvalidError
from migration_service.models import EventHistory
from migration_service.schemas.events import EventType
from migration_service.services.events.reading import HORIZON, Position
from migration_service.services.events.recording import record

#: The text of the position before the oldest event.
START = "start"


@dataclass(frozen=True, slots=True)
class History:
    """A server of PostgreSQL, by the identifier of its data, and a timeline of it."""

    system_identifier: int
    timeline: int
    #: What signs the cursors of the current history.
    key: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position, and the history in which it was read."""

    history: History
    position: Position


def cursor_writer(history: History, organisation_id: int) -> Callable[[Position | None], str]:
    """Return the function that writes cursors of the current history. To clients they mean nothing."""
    beginning = f"{history.system_identifier:016x}-{history.timeline:x}"
    signer = _signer(history, organisation_id)

    def write(position: Position | None) -> str:
        if position is None:
            return START
        generation, transaction_id, id_ = position
        cursor = f"{beginning}-{-generation:x}-{transaction_id:x}-{id_.hex}"
        return f"{cursor}-{signer(cursor)}"

    return write


def _signer(history: History, organisation_id: int) -> Callable[[str], str]:
    keyed = blake2b(b"%d " % organisation_id, digest_size=8, key=history.key)

    def sign(cursor: str) -> str:
        one = keyed.copy()
        one.update(cursor.encode())
        return one.hexdigest()

    return sign


_CURSOR = re.compile(
    r"([0-7][0-9a-f]{15})-([0-9a-f]{1,8})-([0-9a-f]{1,3})-([0-9a-f]{1,15})-([0-9a-f]{32})-([0-9a-f]{16})"
)


def parse_cursor(current: History, organisation_id: int, cursor: str) -> Cursor:
    """Return the cursor that a client sends. Raise EventCursorInvalidError if it was never given."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise EventCursorInvalidError
    unsigned, _, signature = cursor.rpartition("-")
    if not compare_digest(_signer(current, organisation_id)(unsigned), signature):
        raise EventCursorInvalidError
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
            row = session.execute(_READ).one()
    return History(row.system_identifier, row.timeline, row.cursor_key)


def note_progress(session: Session) -> None:
    """Note a transaction number that the current history has reached, from which a later one may go back."""
    follow_history(session)
    session.execute(_NOTE_PROGRESS)


def locate(session: Session, organisation_id: int, cursor: Cursor) -> Position:
    """Return the position in this database of a cursor from any history.

    Raise EventCursorExpiredError if events that follow were removed, and EventCursorAheadError if the event
    at the cursor was lost. Call `tell_rewound` after the second, in a transaction that is committed. Raise
    EventCursorInvalidError if the cursor was given by a copy of this database.
    """
    current = follow_history(session)
    position = _find(session, organisation_id, cursor, current)
    if position is not None:
        return position
    rows = session.scalars(select(EventHistory).order_by(EventHistory.id)).all()
    if not any(row.system_identifier == cursor.history.system_identifier for row in rows):
        raise EventCursorInvalidError
    oldest = session.execute(_OLDEST, {"organisation_id": organisation_id}).one_or_none()
    if cursor.history == current and oldest and cursor.position < Position(*oldest):
        raise EventCursorExpiredError
    since = _find_last_certain(session, organisation_id, cursor, rows)
    raise EventCursorAheadError(cursor=cursor_writer(current, organisation_id)(since))


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
        allow_minutes(session)
        session.execute(_SET_APART)
        session.execute(_SET_CONSUMERS_BACK)
        session.execute(_SET_DELIVERIES_BACK)
    history = EventHistory(
        system_identifier=row.system_identifier,
        timeline=row.timeline,
        is_restored=is_restored,
        reached_transaction_id=row.horizon,
    )
    if row.cursor_key is not None:
        history.cursor_key = row.cursor_key
    session.add(history)
    session.flush()
    if is_restored:
        current = follow_history(session)
        for last in session.execute(_LAST_OF_EACH).all():
            cursor = cursor_writer(current, last.organisation_id)(Position(*last[1:]))
            tell_rewound(session, last.organisation_id, cursor)


def _find(session: Session, organisation_id: int, cursor: Cursor, current: History) -> Position | None:
    """Return the position of the event at the cursor, or None if it does not exist."""
    values = {"organisation_id": organisation_id, **cursor.position._asdict()}
    row = session.execute(_FIND, values).one_or_none()
    if row is None and cursor.history != current:
        row = session.execute(_FIND_IN_GENERATIONS, values).one_or_none()
    return Position(*row) if row else None


def _find_last_certain(
    session: Session, organisation_id: int, cursor: Cursor, rows: Sequence[EventHistory]
) -> Position | None:
    """Return the last event that a reader has certainly seen who lost the event at the cursor.

    `rows` are all histories. Raise EventCursorExpiredError if that event was certainly not lost.
    """
    of_cursor = [
        index
        for index, row in enumerate(rows)
        if History(row.system_identifier, row.timeline) == cursor.history and row is not rows[-1]
    ]
    if not of_cursor:
        return None
    own, *later = rows[of_cursor[-1] :]
    if not later[0].is_restored and cursor.position.transaction_id < own.reached_transaction_id:
        raise EventCursorExpiredError
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
           known.is_copied, known.cursor_key
    FROM pg_control_system() AS control LEFT JOIN (
        SELECT system_identifier, timeline, cursor_key,
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
_SET_DELIVERIES_BACK = text("UPDATE webhook_delivery SET generation = generation - 1")
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
