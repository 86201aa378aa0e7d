"""Recording events, each in the transaction that causes it, so that neither exists without the other.

Accounts of single requests are told by the statement that completes their attempts
(`services.imports.states`).
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from migration_payloads.schemas.json import encode_json
from migration_service.db.base import new_id
from migration_service.db.sql import SqlConnection, connection_of
from migration_service.schemas.events import EventType


def record(
    handle: Session | SqlConnection,
    type: EventType,
    data: Mapping[str, Any],
    *,
    organisation_id: int,
    import_supplier_id: int | None = None,
) -> None:
    """Add an event to the open transaction. `data` has the form that the catalogue describes, ready for JSON.

    It contains ids, numbers, codes and counts, never personal data. Call this outside savepoints: within one,
    PostgreSQL gives the row another transaction number than the event, which then looks like one from a dump.
    """
    values = {
        "organisation_id": organisation_id,
        "id": new_id(),
        "import_supplier_id": import_supplier_id,
        "type": type,
        "data": encode_json(dict(data)).decode(),
    }
    connection_of(handle).execute(_RECORD, values)


def record_for_all(session: Session, type: EventType, data: Mapping[str, Any]) -> None:
    """Add an event about the whole service for each organisation."""
    values = {"type": type, "data": encode_json(dict(data)).decode()}
    connection_of(session).execute(_RECORD_FOR_ALL, values)


_RECORD = """
    INSERT INTO event (organisation_id, id, import_supplier_id, type, data)
    VALUES (%(organisation_id)s, %(id)s, %(import_supplier_id)s, %(type)s, %(data)s::jsonb)
    RETURNING id
"""
_RECORD_FOR_ALL = """
    INSERT INTO event (organisation_id, type, data)
    SELECT id, %(type)s, %(data)s::jsonb FROM organisation
    RETURNING id
"""
