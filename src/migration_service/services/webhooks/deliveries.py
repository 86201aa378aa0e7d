"""The deliveries of an endpoint: lists, single ones with their attempts, and sending events again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_payloads.schemas.json import encode_json
from migration_service.db.base import new_id
from migration_service.errors import WebhookDeliveryNotFoundError
from migration_service.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from migration_service.services.audit.entries import AuditAction, record
from migration_service.states import DeliveryLane, DeliveryState

#: The type of the event that only tests an endpoint. It is not in the feed.
TEST_TYPE = "webhook.test"
#: Days for which deliveries are kept.
KEPT_DAYS = 30
_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """One attempt to deliver an event."""

    number: int
    at: datetime
    milliseconds: int
    #: The status of the answer, or None if there was none.
    status: int | None
    #: A DeliveryFailure, or None if the event was delivered.
    error: str | None
    #: The first characters of the answer.
    answer: str


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """A delivery, with its last attempt, or with all of them."""

    delivery_number: int
    event_id: Any
    event_type: str
    state: str
    #: Whether it was asked for, by a redelivery or a test.
    replay: bool
    attempts: int
    created_at: datetime
    #: When it is sent next, or None if it has ended.
    next_attempt_at: datetime | None
    settled_at: datetime | None
    attempt_list: list[AttemptReport]


def list_deliveries(
    session: Session,
    endpoint: WebhookEndpoint,
    *,
    state: DeliveryState | None = None,
    before: int | None = None,
    limit: int,
) -> list[DeliveryReport]:
    """Return deliveries, newest first, with the last attempt of each: those before the id `before`."""
    statement = select(WebhookDelivery).where(WebhookDelivery.endpoint_id == endpoint.id)
    if state is not None:
        statement = statement.where(WebhookDelivery.state == state)
    if before is not None:
        statement = statement.where(WebhookDelivery.id < before)
    found = session.scalars(statement.order_by(WebhookDelivery.id.desc()).limit(limit)).all()
    rows = session.scalars(
        select(WebhookAttempt)
        .where(WebhookAttempt.delivery_id.in_([it.id for it in found]))
        .order_by(WebhookAttempt.number)
    )
    last = {row.delivery_id: row for row in rows}
    return [_report(it, [last[it.id]] if it.id in last else []) for it in found]


def get_delivery(session: Session, endpoint: WebhookEndpoint, delivery_number: int | str) -> WebhookDelivery:
    """Return a delivery of the endpoint. Raise WebhookDeliveryNotFoundError."""
    given = str(delivery_number)
    number = int(given) if given.isascii() and given.isdigit() and len(given) < 20 else 0
    if 0 < number <= _LARGEST_ID:
        delivery = session.get(WebhookDelivery, number)
        if delivery is not None and delivery.endpoint_id == endpoint.id:
            return delivery
    raise WebhookDeliveryNotFoundError(found=delivery_number)


def report_delivery(session: Session, delivery: WebhookDelivery) -> DeliveryReport:
    """Return a delivery with all its attempts, in order."""
    attempts = select(WebhookAttempt).where(WebhookAttempt.delivery_id == delivery.id)
    return _report(delivery, session.scalars(attempts.order_by(WebhookAttempt.number)).all())


def send_test(session: Session, endpoint: WebhookEndpoint) -> WebhookDelivery:
    """Send an event of the type `webhook.test` to one endpoint, even if it is switched off."""
    event_id = new_id()
    event = {
        "id": str(event_id),
        "type": TEST_TYPE,
        "created_at": write_moment(datetime.now(UTC)),
        "import_supplier": None,
        "data": {"webhook_id": str(endpoint.id)},
    }
    return _send(session, endpoint, event_id, TEST_TYPE, encode_json(event).decode())


def redeliver(session: Session, endpoint: WebhookEndpoint, delivery: WebhookDelivery) -> WebhookDelivery:
    """Send the event of a delivery again, whatever became of it, and even if the endpoint is switched off.

    The message has the same `webhook-id`, and is signed with the current secret.
    """
    _record(session, endpoint, {"delivery_number": delivery.id})
    return _send(session, endpoint, delivery.event_id, delivery.event_type, delivery.body)


def redeliver_since(
    session: Session, endpoint: WebhookEndpoint, since: datetime, *, only_failed: bool
) -> int:
    """Send all events since then again, or only those whose deliveries have failed. Return their number.

    All events are those that the endpoint would get now, also if it was switched off when they happened, or
    did not exist. An event that is about to be sent anyway is left out.
    """
    # Two who ask at the same time would not see what the other one adds.
    session.execute(
        select(WebhookEndpoint.id).where(WebhookEndpoint.id == endpoint.id).with_for_update(key_share=True)
    )
    values = {"endpoint_id": endpoint.id, "organisation_id": endpoint.organisation_id, "since": since}
    rows = session.execute(_FAILED_AGAIN if only_failed else _ALL_AGAIN, values).all()
    details = {"since": write_moment(since), "only_failed": only_failed, "events": len(rows)}
    _record(session, endpoint, details)
    return len(rows)


def remove_old_deliveries(session: Session, *, limit: int) -> int:
    """Remove up to `limit` deliveries and their attempts after their time. Return their number.

    Those that are still pending are of endpoints that were switched off or removed.
    """
    return len(session.execute(_REMOVE, {"days": KEPT_DAYS, "limit": limit}).all())


def _send(
    session: Session, endpoint: WebhookEndpoint, event_id: Any, event_type: str, body: str
) -> WebhookDelivery:
    delivery = WebhookDelivery(
        endpoint_id=endpoint.id,
        event_id=event_id,
        event_type=event_type,
        body=body,
        lane=DeliveryLane.REPLAY,
    )
    session.add(delivery)
    session.flush()
    session.refresh(delivery)
    return delivery


def _report(delivery: WebhookDelivery, attempts: Sequence[WebhookAttempt]) -> DeliveryReport:
    names = AttemptReport.__slots__
    is_pending = delivery.state == DeliveryState.PENDING
    return DeliveryReport(
        delivery_number=delivery.id,
        event_id=delivery.event_id,
        event_type=delivery.event_type,
        state=delivery.state,
        replay=delivery.lane == DeliveryLane.REPLAY,
        attempts=delivery.attempts,
        created_at=delivery.created_at,
        next_attempt_at=delivery.next_attempt_at if is_pending else None,
        settled_at=delivery.settled_at,
        attempt_list=[AttemptReport(**{name: getattr(it, name) for name in names}) for it in attempts],
    )


def _record(session: Session, endpoint: WebhookEndpoint, details: dict[str, Any]) -> None:
    record(
        session,
        AuditAction.WEBHOOK_REDELIVERED,
        "webhook",
        endpoint.id,
        organisation_id=endpoint.organisation_id,
        details=details,
    )


_NOT_COMING = """
    NOT EXISTS (
        SELECT FROM webhook_delivery AS other
        WHERE other.endpoint_id = :endpoint_id AND other.event_id = {event} AND other.state IN ({states}))"""

# The conditions are those of the trigger. Only what may be seen in the feed is sent.
_ALL_AGAIN = text(f"""
    INSERT INTO webhook_delivery (endpoint_id, event_id, event_type, body, lane)
    SELECT endpoint.id, event.id, event.type, event_message(event), '{DeliveryLane.REPLAY}'
    FROM webhook_endpoint AS endpoint JOIN event ON event.organisation_id = endpoint.organisation_id
    WHERE endpoint.id = :endpoint_id AND event.organisation_id = :organisation_id
      AND event.created_at >= :since
      AND (endpoint.event_types IS NULL OR event.type = ANY (endpoint.event_types))
      AND (endpoint.import_supplier_ids IS NULL OR event.type = 'feed.rewound'
           OR event.import_supplier_id = ANY (endpoint.import_supplier_ids))
      AND {_NOT_COMING.format(event="event.id", states=f"'{DeliveryState.PENDING}'")}
    ORDER BY event.generation, event.transaction_id, event.id
    RETURNING 1
""")

_FAILED_AGAIN = text(f"""
    INSERT INTO webhook_delivery (endpoint_id, event_id, event_type, body, lane)
    SELECT endpoint_id, event_id, event_type, body, '{DeliveryLane.REPLAY}'
    FROM (SELECT DISTINCT ON (event_id) * FROM webhook_delivery
          WHERE endpoint_id = :endpoint_id AND state = '{DeliveryState.FAILED}' AND created_at >= :since
            AND event_type <> '{TEST_TYPE}'
          ORDER BY event_id, id) AS failed
    WHERE {
    _NOT_COMING.format(
        event="failed.event_id", states=f"'{DeliveryState.PENDING}', '{DeliveryState.DELIVERED}'"
    )
}
    ORDER BY id
    RETURNING 1
""")

# Ids are almost in the order of time, so only the lowest are looked at.
_REMOVE = text("""
    WITH removed AS (
        DELETE FROM webhook_delivery WHERE id = ANY (ARRAY(
            SELECT id FROM (SELECT * FROM webhook_delivery ORDER BY id LIMIT :limit) AS oldest
            WHERE created_at < now() - make_interval(days => :days)))
        RETURNING id
    ), attempts AS (
        DELETE FROM webhook_attempt USING removed WHERE delivery_id = removed.id
    )
    SELECT id FROM removed
""")
