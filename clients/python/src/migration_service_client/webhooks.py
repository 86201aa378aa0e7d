"""Webhooks that the service sent: verified by Standard Webhooks, with their data as its class."""

import base64
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from migration_service_client.answers import decode, parse
from migration_service_client.errors import WebhookNotVerified, WebhookSecretUnusable
from migration_service_client.models import EVENTS, Event

#: Bytes of the key in a secret. The service makes longer ones.
SHORTEST_KEY = 16


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event. `data` is an instance of the class of its type, or a dictionary if there is none here.

    An event may come more than once, each time with the same `event.id`.
    """

    event: Event
    data: Any


#: The most digits of a Unix time.
_DIGITS = 12


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    *,
    tolerance: float = 300.0,
    now: float | None = None,
) -> ReceivedEvent:
    """Return the event of a webhook.

    `body` is what was received, byte for byte. `secrets` are those of the webhook: while one is replaced,
    two. `tolerance`: seconds by which the message may be older or newer than `now`, which is the present
    unless given. Raise WebhookNotVerified if the service did not sign it, or if it is too old. Raise
    WebhookSecretUnusable before anything is compared if one of the secrets is none.
    """
    keys = [_read_secret(it) for it in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise WebhookSecretUnusable("Expected a secret of the webhook.")
    given = {name.lower(): value for name, value in headers.items()}
    name, sent = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    signatures = [it.encode() for it in given.get("webhook-signature", "").split()]
    signed = f"{name}.{sent}.".encode() + body
    known = [_sign(it, signed) for it in keys]
    if not any(hmac.compare_digest(right, it) for right in known for it in signatures):
        raise WebhookNotVerified("No signature of the message is right.")
    moment = time.time() if now is None else now
    if not sent.isdecimal() or len(sent) > _DIGITS or abs(moment - int(sent)) > tolerance:
        raise WebhookNotVerified("The message is too old, or a clock is wrong.")
    message = parse(body)
    event: Event = decode(Event, message)
    data = message.get("data", {})
    return ReceivedEvent(event, decode(EVENTS[event.type], data) if event.type in EVENTS else data)


def sign_webhook(body: bytes, event_id: str, timestamp: int, secret: str) -> dict[str, str]:
    """Return the headers with which the service would sign this body at this Unix time."""
    signature = _sign(_read_secret(secret), f"{event_id}.{timestamp}.".encode() + body).decode()
    return {"webhook-id": event_id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}


def _read_secret(secret: str) -> bytes:
    """Return the key in a secret. An empty or a short one is no key: anybody could sign with it."""
    try:
        key = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except ValueError as error:
        raise WebhookSecretUnusable("A secret of the webhook is not whsec_ and Base64.") from error
    if len(key) < SHORTEST_KEY:
        raise WebhookSecretUnusable(f"A secret of the webhook has fewer than {SHORTEST_KEY} bytes.")
    return key


def _sign(key: bytes, signed: bytes) -> bytes:
    return b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
