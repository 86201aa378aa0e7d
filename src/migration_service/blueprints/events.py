"""The feed of events: what happened to the accounts, batches and keys of an organisation."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from flask import Response, jsonify, request

from migration_payloads.moments import write_moment
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_path
from migration_service.blueprints.requests.paging import link_next
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream
from migration_service.db.pieces import READ_BYTES, in_pieces
from migration_service.errors import ErrorItem, EventCursorAheadError, ServiceError, raise_all
from migration_service.models import EventConsumer
from migration_service.schemas import events
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.events import consumers
from migration_service.services.events.consumers import open_feed
from migration_service.services.events.history import History, cursor_writer, follow_history, tell_rewound
from migration_service.services.events.reading import EventPage, Position, ReadEvent, read_events

#: The most events that are read at once, and in a page without `limit`.
PIECE, PAGE = 2_000, 500
#: Bytes of the events of a page. The last one is whole.
PAGE_BYTES = 500_000
_NDJSON = "application/x-ndjson"

blueprint = make_blueprint("events", "events", "What happened, in an order in which nothing is ever missed.")

_EXAMPLE = events.AccountCreatedSchema.event() | {"cursor": events.CURSOR}


def _open(arguments: dict[str, Any]) -> tuple[frozenset[int] | None, History, Position | None]:
    """Return the suppliers and the position from which to read. Raise the first error, with all others."""
    found: list[ServiceError] = []
    supplier_ids = caller().import_supplier_ids
    with resources().Session.begin() as session:
        if "import_supplier_code" in arguments:
            try:
                supplier_ids = frozenset([supplier_in_path(session, arguments["import_supplier_code"]).id])
            except ServiceError as error:
                error.errors = [replace(item, attr="import_supplier_code") for item in error.errors]
                found.append(error)
        cursor, consumer = arguments.get("cursor"), arguments.get("consumer")
        try:
            history, position = open_feed(session, caller().organisation_id, cursor, consumer)
        except ServiceError as error:
            found.append(error)
        raise_all(found)
    return supplier_ids, history, position


def _find_misfits(arguments: dict[str, Any]) -> list[ErrorItem]:
    """Return the errors of the supplier and the cursor, for a request that has others."""
    try:
        _open({name: it for name, it in arguments.items() if name != "consumer"})
    except ServiceError as error:
        return error.errors
    return []


@blueprint.get("/", endpoint="list_events")
@query_arguments(events.EventArgumentsSchema(), find_misfits=_find_misfits)
@blueprint.response(200, events.FeedEventSchema(many=True), example=[_EXAMPLE], headers=refer("Link"))
@blueprint.alt_response(200, schema=events.FeedEventSchema, content_type=_NDJSON, example=_EXAMPLE)
@answers_errors(
    errors.ImportSupplierNotFoundError,
    errors.EventCursorInvalidError,
    errors.EventCursorExpiredError,
    errors.EventCursorAheadError,
    errors.TooManyConsumersError,
    body=events.EventErrorBodySchema,
)
def list_events(arguments: dict[str, Any]) -> Response:
    """List what happened since a position, oldest first

    One page, and a Link header (rel="next") to what follows it, which may not have happened yet. With
    `Accept: application/x-ndjson`, all events that there are, streamed. Events are at-least-once: leave out
    one whose `id` you know.
    """
    limit = arguments.get("limit")
    sessions, owner = resources().Session, caller().organisation_id
    as_lines = request.accept_mimetypes.best_match(("application/json", _NDJSON)) == _NDJSON
    try:
        supplier_ids, history, position = _open(arguments)
    except EventCursorAheadError as error:
        with sessions.begin() as session:
            tell_rewound(session, owner, error.cursor)
        raise

    def read_on(after: Position | None, size: int, most_bytes: int = READ_BYTES) -> EventPage:
        with sessions.begin() as session:
            return read_events(
                session,
                owner,
                after,
                types=arguments.get("type"),
                import_supplier_ids=supplier_ids,
                limit=size,
                most_bytes=most_bytes,
            )

    write = _writer(history, owner)
    if as_lines:
        response = stream(_lines(position, limit, read_on, write), f"{_NDJSON}; charset=utf-8")
    else:
        page = read_on(position, limit or PAGE, PAGE_BYTES)
        response = Response(f"[{','.join(map(write, page.events))}]", mimetype="application/json")
        link_next(response, limit or PAGE, cursor_writer(history, owner)(page.position))
    response.vary.add("Accept")
    return response


@blueprint.get("/consumers/", endpoint="list_event_consumers")
@blueprint.response(200, events.EventConsumerAnswerSchema(many=True))
@answers_errors()
def list_event_consumers() -> Response:
    """List the organisation's named consumers of events

    Each with its position. Events that it has not acknowledged are kept until it has asked for none for some
    time, which is 60 days by default.
    """
    with resources().Session.begin() as session:
        history = follow_history(session)
        found = [_report(history, it) for it in consumers.list_consumers(session, caller().organisation_id)]
    return jsonify(found)


@blueprint.post("/consumers/<name>/forget/", endpoint="forget_event_consumer")
@blueprint.response(200, events.EventConsumerAnswerSchema)
@answers_errors(errors.EventConsumerNotFoundError)
def forget_event_consumer(name: str) -> Response:
    """Forget a named consumer of events

    Events are no longer kept for it. If it asks again, it begins at the oldest event.
    """
    with resources().Session.begin() as session:
        history = follow_history(session)
        report = _report(history, consumers.forget_consumer(session, caller().organisation_id, name))
        record(session, AuditAction.EVENT_CONSUMER_FORGOTTEN, "event_consumer", name)
    return jsonify(report)


def _report(history: History, consumer: EventConsumer) -> dict[str, str]:
    return {
        "name": consumer.name,
        "cursor": cursor_writer(history, consumer.organisation_id)(consumers.position_of(consumer)),
        "asked_at": write_moment(consumer.asked_at),
    }


def _lines(
    position: Position | None,
    limit: int | None,
    read_on: Callable[[Position | None, int], EventPage],
    write: Callable[[ReadEvent], str],
) -> Iterator[bytes]:
    """Yield the lines of the events after a position, at most `limit` in all."""
    left = PIECE if limit is None else limit

    def read(after: Position | None) -> list[ReadEvent]:
        return read_on(after, min(left, PIECE)).events if left else []

    def write_line(event: ReadEvent) -> bytes:
        nonlocal left
        left -= limit is not None
        return f"{write(event)}\n".encode()

    return in_pieces(read, write_line, lambda event: event.position, position)


def _writer(history: History, organisation_id: int) -> Callable[[ReadEvent], str]:
    """Return the function that writes an event with its cursor."""
    write_cursor = cursor_writer(history, organisation_id)
    return lambda event: f'{event.body[:-1]},"cursor":"{write_cursor(event.position)}"}}'
