"""Reads what an organisation is told of, and compares it with the catalogue."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.schemas.base import find_unknown_fields
from migration_service.models import Event
from migration_service.schemas.events import CATALOGUE, EventType
from support.supplier_client import SupplierClient

NDJSON = {"Accept": "application/x-ndjson"}


def read_told(
    sessions: sessionmaker[Session], organisation_id: int, *types: EventType
) -> list[dict[str, Any]]:
    """Return the data of the organisation's events of these types, or of all, in their order.

    Each must have the members that the catalogue describes, and no others.
    """
    order = (Event.generation, Event.transaction_id, Event.id)
    with sessions.begin() as session:
        events = session.scalars(
            select(Event).where(Event.organisation_id == organisation_id).order_by(*order)
        ).all()
        for event in events:
            check_data(event.type, event.data)
        return [event.data for event in events if not types or event.type in types]


def check_data(type_: str, data: dict[str, Any]) -> None:
    """Fail unless the data of an event is what the catalogue says."""
    schema = CATALOGUE[EventType(type_)]()
    assert schema.validate(data) == {}, (type_, data)
    assert find_unknown_fields(schema, data) == [], (type_, data)


def read_feed(supplier: SupplierClient, **query: Any) -> list[dict[str, Any]]:
    """Return the events of the feed, as NDJSON."""
    events = list(supplier.read("/events/", query_string=query, headers=NDJSON))
    for event in events:
        check_data(event["type"], event["data"])
    return events
