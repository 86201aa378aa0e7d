"""Webhooks and payment vendors in the console: what it says of them, and what only it does."""

import pytest
from sqlalchemy.orm import Session, sessionmaker

from support.audit import audited
from support.console_client import ConsoleClient
from support.supplier_client import SupplierClient

_LIST = "/setup/webhooks/"


@pytest.fixture
def path(supplier: SupplierClient) -> str:
    """The path of the forms of a webhook of the supplier's organisation."""
    values = {"url": "https://billing.example.com/?key=secret", "description": "Billing"}
    answer = supplier.post("/webhooks/", {**values, "event_types": ["batch.ended"]}).get_json()
    return f"{_LIST}{answer['webhook_id']}/"


def test_a_webhook_is_switched_off_and_on_and_its_owner_is_named(
    administrator: ConsoleClient, path: str, sessions: sessionmaker[Session]
) -> None:
    page = administrator.see(_LIST)
    assert "Billing" in page and "batch.ended" in page
    assert f"{path}switch_on/" not in page
    assert administrator.act(f"{path}switch_off/") == (_LIST, "The webhook is switched off.")
    assert "is switched off" in administrator.lead(_LIST)
    assert administrator.act(f"{path}switch_on/") == (_LIST, "The webhook is switched on.")
    assert administrator.send(f"{path}set_email/", {"email": "nobody"}).status_code == 400
    administrator.act(f"{path}set_email/", {"email": "owner@example.com"})
    assert "owner@example.com" in administrator.see(_LIST)
    administrator.act(f"{path}set_email/", {"email": " "})
    page = administrator.see(_LIST)
    assert "owner@example.com" not in page
    assert "billing.example.com/?…" in page
    assert "key=secret" not in page
    entries = audited(sessions, subject=path.split("/")[-2])
    assert [entry.action for entry in entries] == ["webhook.created", *["webhook.changed"] * 2]
    assert "owner@" not in str([entry.details for entry in entries])
