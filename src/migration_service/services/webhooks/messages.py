"""The form of a message: the body in either format, and the headers of Standard Webhooks."""

import time
from collections.abc import Sequence

from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.destinations.protocol import Message
from migration_service.services.webhooks.secrets import sign
from migration_service.states import EventFormat

#: The source of events in the form of CloudEvents: the path of the feed.
SOURCE = "/v1/data-import/events/"
_TYPES = {EventFormat.STANDARD: "application/json", EventFormat.CLOUDEVENTS: "application/cloudevents+json"}


def compose(
    url: str,
    event_id: str,
    body: str,
    event_format: EventFormat,
    secrets: Sequence[str],
    *,
    credentials: str | None = None,
) -> Message:
    """Return the message with an event. Its signature has the time of this call."""
    content = body.encode() if event_format is EventFormat.STANDARD else _as_cloud_event(body)
    timestamp = int(time.time())
    headers = {
        "Content-Type": _TYPES[event_format],
        "User-Agent": "migration-service",
        "Accept-Encoding": "identity",
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(content, message_id=event_id, timestamp=timestamp, secrets=secrets),
    }
    return Message(url, headers, content, credentials)


def _as_cloud_event(body: str) -> bytes:
    event = parse_json(body.encode())
    supplier = event["import_supplier"]
    return encode_json(
        {
            "specversion": "1.0",
            "id": event["id"],
            "source": SOURCE,
            "type": event["type"],
            "time": event["created_at"],
            **({"importsupplier": supplier} if supplier is not None else {}),
            "datacontenttype": "application/json",
            "data": event["data"],
        }
    )
