"""Switching off endpoints that are gone, or to which nothing could be delivered for days."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_service.models import AlertEmail, WebhookEndpoint
from migration_service.schemas.events import EventType
from migration_service.services.audit.entries import AuditAction, record_about
from migration_service.services.events.recording import record
from migration_service.states import EndpointOff

#: An endpoint is switched off if every attempt has failed for so many days,
FAILING_DAYS = 5
#: and the last failure was at least so many hours after the first.
FAILING_HOURS = 24

_WHY = {
    EndpointOff.GONE: "It answered with status 410, which means that it is gone.",
    EndpointOff.FAILING: f"No event could be delivered to it for {FAILING_DAYS} days.",
    EndpointOff.KEY_REVOKED: "The API key that created it was revoked.",
}


def switch_off_failing(session: Session) -> int:
    """Switch off endpoints that have failed for days. Return their number."""
    values = {"days": FAILING_DAYS, "hours": FAILING_HOURS}
    found = session.scalars(_FAILING, values).all()
    for endpoint_id in found:
        switch_off(session, endpoint_id, EndpointOff.FAILING)
    return len(found)


def find_webhooks_of_key(session: Session, api_key_id: int) -> Sequence[WebhookEndpoint]:
    """Return the endpoints that a key has created and that are on, the oldest first."""
    return session.scalars(
        select(WebhookEndpoint)
        .where(
            WebhookEndpoint.api_key_id == api_key_id,
            WebhookEndpoint.disabled_at.is_(None),
            WebhookEndpoint.removed_at.is_(None),
        )
        .order_by(WebhookEndpoint.id)
    ).all()


def switch_off_webhooks_of_key(session: Session, api_key_id: int) -> None:
    """Switch off the endpoints that a key has created, because it was revoked."""
    for endpoint in find_webhooks_of_key(session, api_key_id):
        switch_off(session, endpoint.id, EndpointOff.KEY_REVOKED)


def switch_off(session: Session, endpoint_id: UUID, reason: EndpointOff) -> None:
    """Switch off an endpoint that is on, and tell its owner by e-mail."""
    endpoint = session.scalar(
        update(WebhookEndpoint)
        .where(
            WebhookEndpoint.id == endpoint_id,
            WebhookEndpoint.disabled_at.is_(None),
            WebhookEndpoint.removed_at.is_(None),
        )
        .values(disabled_at=func.clock_timestamp(), disabled_reason=reason)
        .returning(WebhookEndpoint)
    )
    if endpoint is None:
        return
    record_about(session, AuditAction.WEBHOOK_SWITCHED_OFF, endpoint, {"reason": reason.value})
    data = {"webhook_id": str(endpoint_id), "reason": reason.value}
    record(session, EventType.WEBHOOK_DISABLED, data, organisation_id=endpoint.organisation_id)
    if endpoint.email:
        _tell(session, endpoint, reason)


def _tell(session: Session, endpoint: WebhookEndpoint, reason: EndpointOff) -> None:
    at = session.scalar(select(func.clock_timestamp()))
    body = (
        f"Webhook {endpoint.id} was switched off. {_WHY[reason]}\n\n"
        "Events that happen while it is off are not sent to it. Correct the receiver, switch the webhook on, "
        "and have the events since then redelivered: the page about webhooks says how.\n"
    )
    values = {
        "event": f"webhook.disabled {endpoint.id} {at}",
        "recipient": endpoint.email,
        "subject": f"Webhook {endpoint.id} was switched off",
        "body": body,
    }
    session.execute(insert(AlertEmail).values(values).on_conflict_do_nothing())


_FAILING = text("""
    SELECT endpoint.id FROM webhook_endpoint AS endpoint
    WHERE disabled_at IS NULL AND removed_at IS NULL
      AND failing_since < now() - make_interval(days => :days)
      AND last_failed_at >= failing_since + make_interval(hours => :hours)
    ORDER BY endpoint.id FOR UPDATE SKIP LOCKED
""")
