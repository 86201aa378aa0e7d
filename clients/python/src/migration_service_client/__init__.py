"""The client of the Account Migration Import Service: `Client` for threads, `AsyncClient` for asyncio."""

from migration_service_client import codes, models
from migration_service_client.client import AsyncClient, Client
from migration_service_client.errors import (
    ClientError,
    ServiceError,
    ServiceUnreachable,
    UnexpectedAnswer,
    WebhookNotVerified,
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
    "codes",
    "file_key",
    "idempotency_key",
    "models",
    "verify_webhook",
]
