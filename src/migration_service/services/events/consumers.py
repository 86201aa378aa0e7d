"""Readers whose position the service keeps, so that they need to keep none.

Events that a consumer has not passed are kept beyond their retention period, until it is given up.
"""

from sqlalchemy import delete, func
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_service.models import EventConsumer
from migration_service.services.events.reading import Position


def read_consumer(session: Session, organisation_id: int, name: str) -> Position | None:
    """Return the position that a consumer has reached, or None if it is before the oldest event."""
    found = session.get(EventConsumer, (organisation_id, name), populate_existing=True)
    if found is None or found.generation is None or found.transaction_id is None or found.event_id is None:
        return None
    return Position(found.generation, found.transaction_id, found.event_id)


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


def remove_consumer(session: Session, organisation_id: int, name: str) -> None:
    """Forget a consumer, so that no event is kept for it."""
    owned = (EventConsumer.organisation_id == organisation_id, EventConsumer.name == name)
    session.execute(delete(EventConsumer).where(*owned))
