"""Where a client reads on in the feed: by a cursor, or as a reader whose position the service keeps.

Events that a consumer has not passed are kept beyond their retention period, until it is given up.
"""

from collections.abc import Sequence

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_service.errors import EventConsumerNotFoundError, TooManyConsumersError
from migration_service.models import EventConsumer
from migration_service.services.events.history import (
    START,
    Cursor,
    History,
    follow_history,
    locate,
    parse_cursor,
)
from migration_service.services.events.reading import Position

#: The most consumers that an organisation may name.
MOST_CONSUMERS = 20


def open_feed(
    session: Session, organisation_id: int, cursor: str | None, consumer: str | None
) -> tuple[History, Position | None]:
    """Return the current history, and the position after which to read. None is before the oldest event.

    A named consumer acknowledges all events up to the cursor that it sends. Without one it reads again after
    the last acknowledged event. Raise EventCursorInvalidError if this feed has given no such
    cursor, and EventCursorExpiredError and EventCursorAheadError if it cannot be read on from it. Raise
    TooManyConsumersError if the organisation has named too many others.
    """
    history = follow_history(session)
    if consumer is not None and session.get(EventConsumer, (organisation_id, consumer)) is None:
        session.execute(_LOCK_ORGANISATION, {"organisation_id": organisation_id})
        if len(list_consumers(session, organisation_id)) >= MOST_CONSUMERS:
            raise TooManyConsumersError
    if cursor is None and consumer is not None:
        known = session.get(EventConsumer, (organisation_id, consumer), populate_existing=True)
        reached = position_of(known) if known else None
        position = reached and locate(session, organisation_id, Cursor(history, reached))
    elif cursor is None or cursor == START:
        position = None
    else:
        position = locate(session, organisation_id, parse_cursor(history, organisation_id, cursor))
    if consumer is not None:
        advance_consumer(session, organisation_id, consumer, position)
    return history, position


def position_of(consumer: EventConsumer) -> Position | None:
    """Return the position that a consumer has reached, or None if it is before the oldest event."""
    if consumer.generation is None or consumer.transaction_id is None or consumer.event_id is None:
        return None
    return Position(consumer.generation, consumer.transaction_id, consumer.event_id)


def advance_consumer(session: Session, organisation_id: int, name: str, position: Position | None) -> None:
    """Store the position that a consumer has reached, and that it has asked just now."""
    generation, transaction_id, event_id = position or (None, None, None)
    values = {"generation": generation, "transaction_id": transaction_id, "event_id": event_id}
    session.execute(
        insert(EventConsumer)
        .values(organisation_id=organisation_id, name=name, **values)
        .on_conflict_do_update(
            index_elements=[EventConsumer.organisation_id, EventConsumer.name],
            set_=values | {"asked_at": func.now()},
        )
    )


def list_consumers(session: Session, organisation_id: int) -> Sequence[EventConsumer]:
    """Return the consumers that an organisation has named, by their names."""
    owned = EventConsumer.organisation_id == organisation_id
    return session.scalars(select(EventConsumer).where(owned).order_by(EventConsumer.name)).all()


def forget_consumer(session: Session, organisation_id: int, name: str) -> EventConsumer:
    """Remove and return a consumer that the organisation has named. Raise EventConsumerNotFoundError."""
    found = session.get(EventConsumer, (organisation_id, name))
    if found is None:
        raise EventConsumerNotFoundError(found=name)
    session.delete(found)
    return found


# Two requests with new names wait for each other. Foreign keys to the organisation do not wait.
_LOCK_ORGANISATION = text("SELECT id FROM organisation WHERE id = :organisation_id FOR NO KEY UPDATE")
