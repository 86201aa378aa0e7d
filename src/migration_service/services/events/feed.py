"""The feed: where a client reads on, by a cursor or as a named consumer."""

from sqlalchemy.orm import Session

from migration_service.models import EventConsumer
from migration_service.services.events import consumers
from migration_service.services.events.history import (
    START,
    Cursor,
    History,
    follow_history,
    locate,
    parse_cursor,
)
from migration_service.services.events.reading import Position


def open_feed(
    session: Session, organisation_id: int, cursor: str | None, consumer: str | None
) -> tuple[History, Position | None]:
    """Return the current history, and the position after which to read. None is before the oldest event.

    A named consumer acknowledges all events up to the cursor that it sends. Without one it reads again after
    the last acknowledged event. Raise EventCursorInvalidError if this feed has given no such
    cursor, and EventCursorExpiredError and EventCursorAheadError if it cannot be read on from it. Raise
    TooManyConsumersError for one consumer too many.
    """
    history = follow_history(session)
    if consumer is not None and session.get(EventConsumer, (organisation_id, consumer)) is None:
        consumers.require_consumer_allowed(session, organisation_id)
    if cursor is None and consumer is not None:
        known = consumers.read_consumer(session, organisation_id, consumer)
        position = known and locate(session, organisation_id, Cursor(history, known))
    elif cursor is None or cursor == START:
        position = None
    else:
        position = locate(session, organisation_id, parse_cursor(history, organisation_id, cursor))
    if consumer is not None:
        consumers.advance_consumer(session, organisation_id, consumer, position)
    return history, position
