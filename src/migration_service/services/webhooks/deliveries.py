"""The deliveries of an endpoint: lists, single ones with their attempts, and sending events again."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service.db.base import new_id
from migration_service.errors import TooManyRedeliveriesError, WebhookDeliveryNotFoundError
from migration_service.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from migration_service.services.audit.entries import AuditAction, record_about
from migration_service.states import DeliveryState

#: The type of the event that only tests an endpoint. It is not in the feed.
TEST_TYPE = "webhook.test"

#: Days for which deliveries are kept.
KEPT_DAYS = 30
#: The most events that an organisation can have sent again within a day, tests included.
MOST_REDELIVERIES = 100_000


def list_deliveries(
    session: Session,
    endpoint: WebhookEndpoint,
    *,
    state: DeliveryState | None = None,
    before: int | None = None,
    limit: int,
) -> Sequence[WebhookDelivery]:
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
    for it in found:
        it.attempt_list = [last[it.id]] if it.id in last else []
    return found


def get_delivery(session: Session, endpoint: WebhookEndpoint, delivery_number: int | str) -> WebhookDelivery:
    """Return a delivery of the endpoint. Raise WebhookDeliveryNotFoundError."""
    found = None
    if re.fullmatch(r"\d{1,18}", str(delivery_number), re.ASCII):  # all numbers of 18 digits fit 64 bits
        found = session.get(WebhookDelivery, int(delivery_number))
    if found is None or found.endpoint_id != endpoint.id:
        raise WebhookDeliveryNotFoundError(found=delivery_number)
    return found


def report_delivery(session: Session, delivery: WebhookDelivery) -> WebhookDelivery:
    """Return a delivery with all its attempts, in order."""
    attempts = select(WebhookAttempt).where(WebhookAttempt.delivery_id == delivery.id)
    delivery.attempt_list = session.scalars(attempts.order_by(WebhookAttempt.number)).all()
    return delivery


def send_test(session: Session, endpoint: WebhookEndpoint) -> WebhookDelivery:
    """Send an event of the type `webhook.test` to one endpoint, even if it is switched off."""
    _require_share(session, endpoint, 1)
    record_about(session, AuditAction.WEBHOOK_TESTED, endpoint)
    return _send(session, endpoint, event_id=new_id(), event_type=TEST_TYPE)


def redeliver(session: Session, endpoint: WebhookEndpoint, delivery: WebhookDelivery) -> WebhookDelivery:
    """Send the event of a delivery again, whatever became of it, and even if the endpoint is switched off.

    The message has the same `webhook-id`, and is signed with the current secret. Raise
    TooManyRedeliveriesError.
    """
    _require_share(session, endpoint, 1)
    record_about(session, AuditAction.WEBHOOK_REDELIVERED, endpoint, {"delivery_number": delivery.id})
    names = ("generation", "transaction_id", "event_id", "event_type")
    return _send(session, endpoint, **{name: getattr(delivery, name) for name in names})


def redeliver_since(
    session: Session, endpoint: WebhookEndpoint, since: datetime, *, only_failed: bool
) -> int:
    """Send all events since then again, or only those whose deliveries have failed. Return their number.

    All events are those that the endpoint would get now, also if it was switched off when they happened, or
    did not exist. An event that is about to be sent anyway is left out. Raise TooManyRedeliveriesError.
    """
    left = _require_share(session, endpoint, 0)
    values = {"endpoint_id": endpoint.id, "organisation_id": endpoint.organisation_id, "since": since}
    statement = _FAILED_AGAIN if only_failed else _ALL_AGAIN
    rows = session.execute(statement, values | {"most": left + 1}).all()
    if len(rows) > left:
        raise TooManyRedeliveriesError
    details = {"since": write_moment(since), "only_failed": only_failed, "events": len(rows)}
    record_about(session, AuditAction.WEBHOOK_REDELIVERED, endpoint, details)
    return len(rows)


def remove_old_deliveries(session: Session, *, limit: int) -> int:
    """Remove up to `limit` deliveries and their attempts after their time. Return their number.

    Those of an endpoint that was removed count for its organisation for a day, and then go with it.
    """
    removed = len(session.execute(_REMOVE, {"days": KEPT_DAYS, "limit": limit}).all())
    session.execute(_REMOVE_ENDPOINTS)
    return removed


def _require_share(session: Session, endpoint: WebhookEndpoint, wanted: int) -> int:
    """Return how many more events the organisation can have sent again, after those that are wanted.

    Raise TooManyRedeliveriesError. Two who ask at the same time would not see what the other one adds, so the
    second waits for the first.
    """
    owner = {"organisation_id": endpoint.organisation_id}
    session.execute(_LOCK_OWNER, owner)
    left: int = MOST_REDELIVERIES - session.execute(_COUNT, owner).scalar_one() - wanted
    if left < 0:
        raise TooManyRedeliveriesError
    return left


def _send(session: Session, endpoint: WebhookEndpoint, **event: Any) -> WebhookDelivery:
    delivery = WebhookDelivery(
        endpoint_id=endpoint.id, organisation_id=endpoint.organisation_id, is_replay=True, **event
    )
    session.add(delivery)
    session.flush()
    session.refresh(delivery)
    return delivery


_LOCK_OWNER = text("SELECT FROM organisation WHERE id = :organisation_id FOR NO KEY UPDATE")
_COUNT = text("""
    SELECT count(*) FROM webhook_delivery
    WHERE organisation_id = :organisation_id AND is_replay AND created_at > now() - interval '1 day'
""")

_ADD = """
    INSERT INTO webhook_delivery
        (organisation_id, endpoint_id, generation, transaction_id, event_id, event_type, is_replay)
"""
_NOT_COMING = """
    NOT EXISTS (
        SELECT FROM webhook_delivery AS other
        WHERE other.endpoint_id = :endpoint_id AND other.event_id = {event} AND other.state IN ({states}))"""

# The conditions are those of the trigger. Only what may be seen in the feed is sent.
_ALL_AGAIN = text(f"""
    {_ADD}
    SELECT event.organisation_id, endpoint.id, event.generation, event.transaction_id, event.id, event.type,
           true
    FROM webhook_endpoint AS endpoint JOIN event ON event.organisation_id = endpoint.organisation_id
    WHERE endpoint.id = :endpoint_id AND event.organisation_id = :organisation_id
      AND event.created_at >= :since
      AND (endpoint.event_types IS NULL OR event.type = ANY (endpoint.event_types))
      AND (endpoint.import_supplier_ids IS NULL OR event.type = 'feed.rewound'
           OR event.import_supplier_id = ANY (endpoint.import_supplier_ids))
      AND {_NOT_COMING.format(event="event.id", states=f"'{DeliveryState.PENDING}'")}
    ORDER BY event.generation, event.transaction_id, event.id LIMIT :most
    RETURNING 1
""")

_FAILED_AGAIN = text(f"""
    {_ADD}
    SELECT organisation_id, endpoint_id, generation, transaction_id, event_id, event_type, true
    FROM (SELECT DISTINCT ON (event_id) * FROM webhook_delivery
          WHERE organisation_id = :organisation_id AND endpoint_id = :endpoint_id
            AND state = '{DeliveryState.FAILED}' AND created_at >= :since AND event_type <> '{TEST_TYPE}'
          ORDER BY event_id, id) AS failed
    WHERE {
    _NOT_COMING.format(
        event="failed.event_id", states=f"'{DeliveryState.PENDING}', '{DeliveryState.DELIVERED}'"
    )
}
    ORDER BY id LIMIT :most
    RETURNING 1
""")

# Ids are almost in the order of time, so only the lowest are looked at.
_REMOVE = text("""
    WITH removed AS (
        DELETE FROM webhook_delivery WHERE id = ANY (ARRAY(
            SELECT id FROM (SELECT * FROM webhook_delivery ORDER BY id LIMIT :limit) AS oldest
            WHERE created_at < now() - make_interval(days => :days)
            UNION
            (SELECT delivery.id FROM webhook_endpoint AS endpoint
             JOIN webhook_delivery AS delivery ON delivery.endpoint_id = endpoint.id
             WHERE endpoint.removed_at < now() - interval '1 day' LIMIT :limit)
            LIMIT :limit))
        RETURNING id
    ), attempts AS (
        DELETE FROM webhook_attempt USING removed WHERE delivery_id = removed.id
    )
    SELECT id FROM removed
""")
_REMOVE_ENDPOINTS = text("""
    DELETE FROM webhook_endpoint AS endpoint
    WHERE removed_at < now() - interval '1 day'
      AND NOT EXISTS (SELECT FROM webhook_delivery WHERE endpoint_id = endpoint.id)
""")
