"""Webhooks that the service sent: verified by Standard Webhooks, with their data as its class."""

import base64
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from migration_service_client.answers import decode, parse
from migration_service_client.errors import WebhookNotVerified
from migration_service_client.models import EVENTS, Event


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event. `data` is an instance of the class of its type, or a dictionary if there is none here.

    An event may come more than once, each time with the same `event.id`.
    """

    event: Event
    data: Any


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    *,
    tolerance: float = 300.0,
    now: float | None = None,
) -> ReceivedEvent:
    """Return the event of a webhook with the format `standard`.

    `body` is what was received, byte for byte. `secrets` are those of the webhook: while one is replaced,
    two. `tolerance`: seconds by which the message may be older or newer than `now`, which is the present
    unless given. Raise WebhookNotVerified if the service did not sign it, or if it is too old.
    """
    given = {name.lower(): value for name, value in headers.items()}
    name, sent = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    signatures = [it.encode() for it in given.get("webhook-signature", "").split()]
    signed = f"{name}.{sent}.".encode() + body
    known = [_sign(it, signed) for it in ([secrets] if isinstance(secrets, str) else secrets)]
    if not any(hmac.compare_digest(right, it) for right in known for it in signatures):
        raise WebhookNotVerified("No signature of the message is right.")
    moment = time.time() if now is None else now
    if not sent.isdecimal() or abs(moment - int(sent)) > tolerance:
        raise WebhookNotVerified("The message is too old, or a clock is wrong.")
    message = parse(body)
    event: Event = decode(Event, message)
    data = message.get("data", {})
    return ReceivedEvent(event, decode(EVENTS[event.type], data) if event.type in EVENTS else data)


def sign_webhook(body: bytes, event_id: str, timestamp: int, secret: str) -> dict[str, str]:
    """Return the headers with which the service would sign this body at this Unix time."""
    signature = _sign(secret, f"{event_id}.{timestamp}.".encode() + body).decode()
    return {"webhook-id": event_id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}


def _sign(secret: str, signed: bytes) -> bytes:
    key = base64.b64decode(secret.strip().removeprefix("whsec_"))
    return b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
