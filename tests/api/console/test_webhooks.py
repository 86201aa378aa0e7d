"""Webhooks in the console: set up, switched off, tested, and who may see them."""

import re

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.access.operators import OperatorRole
from support.audit import audited
from support.console_client import ConsoleClient, LogIn
from support.supplier_client import SupplierClient

_LIST = "/setup/webhooks/"


@pytest.fixture
def path(administrator: ConsoleClient, supplier: SupplierClient) -> str:
    """The page of a webhook of the supplier's organisation."""
    fields = {
        "organisation": supplier.organisation,
        "url": "https://billing.example.com/events",
        "description": "Billing",
        "event_types": "batch.ended",
        "import_suppliers": supplier.code,
        "email": "owner@example.com",
    }
    answer = administrator.send(f"{_LIST}new/", fields)
    assert re.search("whsec_[A-Za-z0-9+/=]{44}", answer.text), answer.text
    (found,) = re.findall(r'href="/console(/setup/webhooks/[0-9a-f-]{36}/)"', administrator.see(_LIST))
    return str(found)


def test_a_webhook_is_changed_switched_off_and_removed(
    administrator: ConsoleClient, path: str, supplier: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    page = administrator.see(path)
    for shown in ("Billing", "batch.ended", supplier.code, "owner@example.com"):
        assert shown in page
    assert 'value="Billing"' in administrator.see(f"{path}change/")
    changed = {"url": "https://billing.example.com/?key=secret"}
    assert administrator.act(f"{path}change/", changed) == (path, "The webhook was changed.")
    assert "billing.example.com/?…" in administrator.see(path)
    assert administrator.act(f"{path}change/", {"description": "Bills"})[0] == path
    for page in (path, _LIST, f"{path}change/", "/audit/"):
        assert "key=secret" not in administrator.see(page)
    for mistake in ({"url": "https://10.0.0.1/"}, {"email": "nobody"}):
        assert administrator.send(f"{path}change/", changed | mistake).status_code == 400
    assert administrator.form(f"{path}switch/").button == "Switch off"
    administrator.act(f"{path}switch/")
    assert "switched off" in administrator.see(path)
    assert "is switched off" in administrator.lead(_LIST)
    assert administrator.act(f"{path}switch/")[1] == "The webhook is switched on."
    assert "whsec_" in administrator.send(f"{path}secret/", {"hours": "1"}).text
    assert administrator.act(f"{path}remove/", {"sure": "y"})[0] == _LIST
    assert administrator.get(path).status_code == 404
    entries = audited(sessions, subject=path.split("/")[-2])
    assert [entry.action for entry in entries] == [
        *("webhook.created", "webhook.changed", "webhook.changed", "webhook.changed"),
        *("webhook.secret_rotated", "webhook.removed"),
    ]
    assert "key=secret" not in str(
        [entry.details for entry in audited(sessions, subject=path.split("/")[-2])]
    )


def test_events_are_sent_again(administrator: ConsoleClient, path: str) -> None:
    place, said = administrator.act(f"{path}test/")
    assert said == "The event is being sent."
    assert "webhook.test" in administrator.see(place)
    assert "has not been sent yet" in administrator.see(place)
    again, _said = administrator.act(f"{place}redeliver/")
    assert again != place
    assert administrator.see(f"{path}?state=PENDING").count("webhook.test") == 2
    assert "webhook.test" not in administrator.see(f"{path}?state=FAILED")
    said = administrator.act(f"{path}redeliver/", {"hours": "24", "only_failed": "y"})[1]
    assert said == "0 events are being sent."
    assert administrator.get(f"{path}deliveries/4711/").status_code == 404


def test_operators_see_the_webhooks_of_their_organisations(
    path: str, log_in: LogIn, supplier: SupplierClient
) -> None:
    stranger = SupplierClient.create(supplier.app, supplier.Session)
    assert log_in(OperatorRole.READ, supplier.organisation).get(path).status_code == 200
    bound = log_in(OperatorRole.ADMINISTER, stranger.organisation)
    for page in ("", "change/", "switch/", "remove/", "secret/", "test/", "redeliver/"):
        assert bound.get(f"{path}{page}").status_code == 404
    assert path not in bound.see(_LIST)
    assert log_in(OperatorRole.OPERATE).get(f"{path}switch/").status_code == 403
