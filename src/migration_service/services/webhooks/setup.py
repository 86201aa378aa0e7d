"""What the settings say about webhooks."""

from migration_service.config import Settings
from migration_service.outgoing.rules import AddressRules
from migration_service.services.webhooks.secrets import Seal


def address_rules(settings: Settings) -> AddressRules:
    """Return where webhooks may be sent."""
    return AddressRules.from_texts(settings.webhook_networks, allows_http=settings.webhook_http)


def seal(settings: Settings) -> Seal:
    """Return the encryption of secrets. Raise SettingsError if a key is none."""
    return Seal(settings.webhook_keys)
