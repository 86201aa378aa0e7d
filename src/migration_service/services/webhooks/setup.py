"""What the settings say about webhooks, and what the console is given."""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema

from migration_payloads.schemas.base import load
from migration_service.config import Settings
from migration_service.errors import RequestFailedValidationError
from migration_service.outgoing.rules import AddressRules
from migration_service.services.webhooks.secrets import Seal


def address_rules(settings: Settings) -> AddressRules:
    """Return where webhooks may be sent."""
    return AddressRules.from_texts(settings.webhook_networks, allows_http=settings.webhook_http)


def seal(settings: Settings) -> Seal:
    """Return the encryption of secrets."""
    return Seal(settings.webhook_keys)


def read_values(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an endpoint, read like the body of a request.

    Raise RequestFailedValidationError.
    """
    values: dict[str, Any]
    values, errors = load(schema, dict(given))
    if errors:
        raise RequestFailedValidationError(errors=errors)
    return values
