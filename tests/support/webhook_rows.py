"""A webhook, for tests that only look at it."""

from sqlalchemy import func
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import WebhookEndpoint
from migration_service.states import EndpointOff
from support.rows import add


def make_webhook(session: Session, organisation_id: int, name: str) -> WebhookEndpoint:
    """Create a webhook of an organisation that is switched off."""
    endpoint = WebhookEndpoint(
        id=new_id(),
        organisation_id=organisation_id,
        url="https://billing.example/events",
        description=f"Webhook of {name}",
        disabled_at=func.now(),
        disabled_reason=EndpointOff.PERSON,
    )
    return add(session, endpoint)
