"""A webhook with a delivery, for tests that only look at them."""

from sqlalchemy import func
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from migration_service.states import DeliveryState, EndpointOff


def make_delivery(session: Session, organisation_id: int, name: str) -> WebhookDelivery:
    """Create a webhook of an organisation that is switched off, and a delivery to it that is over."""
    endpoint = WebhookEndpoint(
        id=new_id(),
        organisation_id=organisation_id,
        url="https://billing.example/events",
        description=f"Webhook of {name}",
        disabled_at=func.now(),
        disabled_reason=EndpointOff.PERSON,
    )
    session.add(endpoint)
    delivery = WebhookDelivery(
        endpoint_id=endpoint.id,
        event_id=new_id(),
        event_type="batch.ended",
        organisation_id=organisation_id,
        state=DeliveryState.FAILED,
        settled_at=func.now(),
        attempts=1,
    )
    session.add(delivery)
    session.flush()
    session.add(
        WebhookAttempt(
            delivery_id=delivery.id,
            number=1,
            at=func.now(),
            milliseconds=87,
            status=500,
            error="status",
            answer="Internal Server Error",
        )
    )
    return delivery
