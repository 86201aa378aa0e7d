"""The client verifies webhooks that the library of Standard Webhooks signs."""

import base64
import hmac
import json
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from migration_service.schemas.events import CATALOGUE, EventType
from migration_service_client import WebhookNotVerified, WebhookSecretUnusable, models, verify_webhook

NOW = 1_700_000_000
Message = tuple[bytes, dict[str, str]]
SECRET, OTHER = ("whsec_" + base64.b64encode(it * 32).decode() for it in (b"a", b"b"))


def message(type: str = "batch.ended", data: object = None, *, secret: str = SECRET) -> Message:
    body = CATALOGUE[EventType("batch.ended")].event() | {"type": type}
    text = json.dumps(body if data is None else body | {"data": data})
    signature = Webhook(secret).sign("e-1", datetime.fromtimestamp(NOW, UTC), text)
    return text.encode(), {
        "Webhook-Id": "e-1",
        "webhook-timestamp": str(NOW),
        "webhook-signature": f"v1,x {signature}",
    }


def test_an_event_has_the_class_of_its_type() -> None:
    received = verify_webhook(*message(), [OTHER, SECRET], now=NOW)
    assert received.event.type == "batch.ended"
    assert isinstance(received.data, models.BatchEnded)
    assert verify_webhook(*message("of.a.later.version", {"a": 1}), SECRET, now=NOW).data == {"a": 1}
    assert set(models.EVENTS) == {str(it) for it in CATALOGUE}


@pytest.mark.parametrize("seconds", [-301, 301])
def test_a_message_that_is_too_old_or_too_new_is_refused(seconds: int) -> None:
    with pytest.raises(WebhookNotVerified, match="too old"):
        verify_webhook(*message(), SECRET, now=NOW + seconds)


@pytest.mark.parametrize("moment", ["9" * 400, "9" * 5_000, "-1", "", "1e9"])
def test_a_moment_that_is_none_is_refused(moment: str) -> None:
    body = b"{}"
    signed = base64.b64encode(hmac.digest(b"a" * 32, f"e-1.{moment}.".encode() + body, "sha256")).decode()
    headers = {"webhook-id": "e-1", "webhook-timestamp": moment, "webhook-signature": f"v1,{signed}"}
    with pytest.raises(WebhookNotVerified, match="too old"):
        verify_webhook(body, headers, SECRET, now=NOW)


@pytest.mark.parametrize(
    "secret",
    [
        *("", " ", "whsec_", "whsec_====", "whsec_QQ==", "whsec_" + base64.b64encode(b"a" * 15).decode()),
        *(f"whsec_{SECRET}", "whsec_" + "-_" * 22, SECRET[:-1], "geheim", "\u0430" * 24),
    ],
)
def test_a_secret_that_anybody_knows_is_refused_before_anything_is_compared(secret: str) -> None:
    body, headers = message()
    forged = base64.b64encode(hmac.digest(b"", f"e-1.{NOW}.".encode() + body, "sha256")).decode()
    for given in (headers, headers | {"webhook-signature": f"v1,{forged}"}, {}):
        for secrets in (secret, [SECRET, secret], [secret, SECRET]):
            with pytest.raises(WebhookSecretUnusable, match="secret"):
                verify_webhook(body, given, secrets, now=NOW)
    with pytest.raises(WebhookSecretUnusable):
        verify_webhook(body, headers, [], now=NOW)
    shortest = "whsec_" + base64.b64encode(b"a" * 16).decode()
    assert verify_webhook(*message(secret=shortest), [SECRET, f" {shortest}\n"], now=NOW).event.id


def test_a_message_that_was_changed_or_signed_with_another_secret_is_refused() -> None:
    body, headers = message()
    for changed in (body + b" ", body.replace(b"batch", b"hatch")):
        with pytest.raises(WebhookNotVerified, match="No signature"):
            verify_webhook(changed, headers, SECRET, now=NOW)
    for wrong in ({}, headers | {"Webhook-Id": "e-2"}, headers | {"webhook-timestamp": str(NOW + 1)}):
        with pytest.raises(WebhookNotVerified, match="No signature"):
            verify_webhook(body, wrong, SECRET, now=NOW)
    with pytest.raises(WebhookNotVerified, match="No signature"):
        verify_webhook(*message(secret=OTHER), SECRET, now=NOW)
