"""Webhooks and payment vendors in the console: what it says of them, and what only it does."""

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.access.operators import OperatorRole
from migration_service.services.setup.vendors import create_payment_vendor
from support.audit import audited
from support.console_client import ConsoleClient, LogIn, text_of
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


def test_vendors_are_listed_with_the_name_of_their_secret_and_not_to_others(
    log_in: LogIn, supplier: SupplierClient, another: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    name, url = f"Vendor of {supplier.code}", "https://gateway.example/v2"
    owner = {"secret_env": "GATEWAY_SECRET", "organisation_name": supplier.organisation}
    with sessions.begin() as session:
        create_payment_vendor(session, name, kind=VendorKind.HTTP, url=url, **owner)
    page = text_of(log_in(OperatorRole.READ, supplier.organisation).see("/setup/vendors/"))
    assert f"{name} http https://gateway.example/v2 GATEWAY_SECRET {supplier.organisation} 10" in page
    assert name not in log_in(OperatorRole.READ, another.organisation).see("/setup/vendors/")
