"""Payment vendors in the console: created, and called as often as somebody says. No secret comes back."""

import re
import secrets

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import PaymentVendor
from migration_service.services.access.operators import OperatorRole
from support.audit import audited
from support.console_client import ConsoleClient, LogIn
from support.supplier_client import SupplierClient

_NEW = "/setup/vendors/new/"


def _vendor(supplier: SupplierClient, **more: str) -> dict[str, str]:
    name = f"vendor-{secrets.token_hex(4)}"
    fields = {"name": name, "kind": "http", "url": "https://gateway.example/v2"}
    return {**fields, "organisation": supplier.organisation, "secret_env": "GATEWAY_SECRET", **more}


def _find(sessions: sessionmaker[Session], name: str) -> PaymentVendor | None:
    with sessions() as session:
        return session.scalar(select(PaymentVendor).where(PaymentVendor.name == name))


def test_a_vendor_is_created_and_called_less_often(
    administrator: ConsoleClient, supplier: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    fields = _vendor(supplier)
    assert administrator.send(_NEW, fields).status_code == 303
    page = administrator.see("/setup/vendors/")
    assert fields["name"] in page
    assert "GATEWAY_SECRET" in page
    vendor = _find(sessions, fields["name"])
    assert vendor is not None
    path = f"/setup/vendors/{vendor.id}/rate/"
    assert "at most 10 times per second" in administrator.see(path)
    assert administrator.send(path, {"calls_per_second": "0"}).status_code == 400
    assert administrator.send(path, {"calls_per_second": "2.5"}).status_code == 303
    assert "at most 2.5 times per second" in administrator.see(path)
    acts = [entry.action for entry in audited(sessions, subject=fields["name"])]
    assert acts == ["payment_vendor.created", "payment_vendor.rate_set"]


def test_a_secret_that_is_entered_by_mistake_is_neither_kept_nor_sent_back(
    administrator: ConsoleClient, supplier: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    fields = _vendor(supplier, secret_env="sk-live-4711-not-a-name")
    answer = administrator.send(_NEW, fields)
    assert answer.status_code == 400
    assert "not the secret itself" in answer.text
    assert "sk-live-4711" not in answer.text
    assert fields["url"] in answer.text
    assert re.search(r'<input [^>]*autocomplete="off"[^>]* name="secret_env"', answer.text)
    assert _find(sessions, fields["name"]) is None
    for bad in ({"url": "ftp://gateway.example"}, {"url": "https://user:pass@gateway.example"}):
        assert administrator.send(_NEW, _vendor(supplier, **bad)).status_code == 400


def test_a_bound_administrator_changes_only_the_vendors_of_the_organisation(
    administrator: ConsoleClient, log_in: LogIn, supplier: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    shared, own = _vendor(supplier, shared="y"), _vendor(supplier)
    for fields in (shared, own):
        assert administrator.send(_NEW, fields).status_code == 303
    bound = log_in(OperatorRole.ADMINISTER, supplier.organisation)
    of_all, of_one = _find(sessions, shared["name"]), _find(sessions, own["name"])
    assert of_all is not None and of_one is not None
    assert of_all.organisation_id is None
    assert of_one.organisation_id is not None
    assert bound.get(f"/setup/vendors/{of_all.id}/rate/").status_code == 404
    assert administrator.get(f"/setup/vendors/{of_all.id}/rate/").status_code == 200
    assert bound.get(f"/setup/vendors/{of_one.id}/rate/").status_code == 200
    page = bound.see("/setup/vendors/")
    assert f"/setup/vendors/{of_one.id}/rate/" in page
    assert f"/setup/vendors/{of_all.id}/rate/" not in page
    assert log_in(OperatorRole.OPERATE).get(f"/setup/vendors/{of_one.id}/rate/").status_code == 403
