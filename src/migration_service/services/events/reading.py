"""Reading events in an order in which none can appear behind a position that was read.

Two transactions get their numbers in one order and may commit in another. So events are ordered by the number
of their transaction, and shown only below the horizon: the lowest number of a transaction that is still
running. All transactions below it have ended, and later ones get higher numbers.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Text, bindparam, text
from sqlalchemy.orm import Session

from migration_payloads.moments import sql_moment
from migration_service.db.pieces import READ_BYTES, first_rows, weight_of
from migration_service.errors import EventCursorExpiredError
from migration_service.schemas.events import EventType


class Position(NamedTuple):
    """The place of an event in the feed of its organisation. Positions are ordered."""

    generation: int
    transaction_id: int
    id: UUID


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """An event in the form in which it is sent."""

    position: Position
    type: str
    #: The event as JSON text: its id, type, created_at, import_supplier (a code or null) and data.
    body: str


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events in order."""

    events: list[ReadEvent]
    #: Where to read on: the last event that was looked at, or None if there is none yet.
    position: Position | None
    has_more: bool


#: Before every event.
_START = Position(-(2**15), 0, UUID(int=0))


def read_events(
    session: Session,
    organisation_id: int,
    after: Position | None,
    *,
    types: Collection[str] | None = None,
    import_supplier_ids: Collection[int] | None = None,
    limit: int,
    most_bytes: int = READ_BYTES,
) -> EventPage:
    """Return the next events of an organisation after a position, or from the oldest one if it is None.

    There are at most `limit`, and no more after `most_bytes`, but at least one if there is any. Only events
    of these types and import suppliers are returned. `feed.rewound` concerns every supplier. The position of
    the page is behind all events that were left out. Raise EventCursorExpiredError if the event at `after`
    was removed: those that follow it may have been removed as well.
    """
    values = {
        "organisation_id": organisation_id,
        **(after or _START)._asdict(),
        "types": None if types is None else list(types),
        "import_supplier_ids": None if import_supplier_ids is None else list(import_supplier_ids),
        "limit": limit + 1,
        "most_bytes": most_bytes,
    }
    rows = session.execute(_READ, values).all()
    horizon, has_beginning, in_all, *_ = rows[0]
    if after is not None and not has_beginning:
        raise EventCursorExpiredError
    found: list[ReadEvent] = []
    length = 0
    for _, _, _, generation, transaction_id, id_, type_, body in rows:
        if id_ is None or len(found) == limit or length >= most_bytes:
            break
        found.append(ReadEvent(Position(generation, transaction_id, id_), type_, body))
        length += len(body)
    if found and len(found) < in_all:
        return EventPage(found, found[-1].position, has_more=True)
    position = found[-1].position if found else after
    if types is not None or import_supplier_ids is not None:
        last = session.execute(_LAST, {"organisation_id": organisation_id, "horizon": horizon}).all()
        position = max((it for it in (position, *(Position(*row) for row in last)) if it), default=None)
    return EventPage(found, position, has_more=False)


#: The lowest number of a transaction that is still running, as of the statement.
HORIZON = "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"

#: The text of an event, as PostgreSQL writes it. Its supplier, if it has one, is joined as `supplier`.
EVENT_JSON = f"""
    '{{"id":"' || event.id || '","type":"' || event.type || '","created_at":"'
    || {sql_moment("event.created_at")} || '","import_supplier":'
    || coalesce(CAST(to_json(supplier.code) AS text), 'null')
    || ',"data":' || CAST(event.data AS text) || '}}'"""

# At most this many, and as many of them as their weights allow. Only those are written as JSON.
_CHOSEN = first_rows(
    f"""
        SELECT generation, transaction_id, id, {weight_of("data")} + 300 AS weight FROM event
        WHERE event.organisation_id = :organisation_id
          AND (generation, transaction_id, event.id) > (:generation, :transaction_id, :id)
          AND (generation, transaction_id) < (0, (SELECT value FROM horizon))
          AND (:types IS NULL OR type = ANY (:types))
          AND (:import_supplier_ids IS NULL OR import_supplier_id = ANY (:import_supplier_ids)
               OR type = '{EventType.FEED_REWOUND}')
        ORDER BY generation, transaction_id, event.id LIMIT :limit""",
    order="generation, transaction_id, id",
    most=":most_bytes",
)
# One row without an event has the horizon if there are no events.
_READ = text(f"""
    WITH horizon AS MATERIALIZED (SELECT {HORIZON} AS value),
    chosen AS MATERIALIZED ({_CHOSEN})
    SELECT horizon.value AS horizon,
           EXISTS (SELECT FROM event WHERE event.organisation_id = :organisation_id
                   AND (generation, transaction_id, event.id) = (:generation, :transaction_id, :id))
               AS has_beginning,
           page.*
    FROM horizon LEFT JOIN LATERAL (
        SELECT chosen.in_all, generation, transaction_id, event.id, type,
               {EVENT_JSON} AS body
        FROM chosen JOIN event USING (generation, transaction_id, id)
        LEFT JOIN import_supplier AS supplier ON supplier.id = import_supplier_id
        WHERE event.organisation_id = :organisation_id) AS page ON true
    ORDER BY generation, transaction_id, id
""").bindparams(
    bindparam("types", type_=ARRAY(Text)), bindparam("import_supplier_ids", type_=ARRAY(BigInteger))
)

_LAST = text("""
    SELECT generation, transaction_id, id FROM event
    WHERE organisation_id = :organisation_id AND (generation, transaction_id) < (0, :horizon)
    ORDER BY generation DESC, transaction_id DESC, id DESC LIMIT 1
""")
