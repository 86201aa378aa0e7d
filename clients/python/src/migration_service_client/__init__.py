"""The client of the Account Migration Import Service: `Client` for threads, `AsyncClient` for asyncio.

A name is imported when it is first used: `migration-client --help` needs neither HTTP nor the types.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from migration_service_client import codes, models
    from migration_service_client.client import AsyncClient, Client
    from migration_service_client.errors import (
        ClientError,
        ServiceError,
        ServiceUnreachable,
        UnexpectedAnswer,
        WebhookNotVerified,
        WebhookSecretUnusable,
    )
    from migration_service_client.keys import file_key, idempotency_key
    from migration_service_client.webhooks import ReceivedEvent, verify_webhook

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "ReceivedEvent",
    "ServiceError",
    "ServiceUnreachable",
    "UnexpectedAnswer",
    "WebhookNotVerified",
    "WebhookSecretUnusable",
    "codes",
    "file_key",
    "idempotency_key",
    "models",
    "verify_webhook",
]

#: The modules that have the names, except those that are modules themselves.
_MODULES = {
    "client": ("AsyncClient", "Client"),
    "errors": (
        *("ClientError", "ServiceError", "ServiceUnreachable", "UnexpectedAnswer"),
        *("WebhookNotVerified", "WebhookSecretUnusable"),
    ),
    "keys": ("file_key", "idempotency_key"),
    "webhooks": ("ReceivedEvent", "verify_webhook"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((it for it, names in _MODULES.items() if name in names), None)
    if module is None:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(f"{__name__}.{module}"), name)
