"""The page of a supplier, and the comparison of what it sent with what was created."""

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import suppliers
from migration_service.models import Account, Customer, Ledger
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.reconciliation.differences import NOT_COMPARED
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of
from support.supplier_client import SupplierClient

_NOT_COMPARED_YET = "Nothing is open. 3 created accounts have not been compared yet."


def test_the_keys_are_those_of_its_organisation_that_are_not_revoked(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    own = find_prefix(batches.supplier.api_key)
    other = SupplierClient.create(batches.supplier.app, batches.supplier.Session)
    page = f"/suppliers/{batches.supplier.code}/"
    shown = administrator.see(page)
    assert f">{own}<" in shown
    assert str(find_prefix(other.api_key)) not in shown
    administrator.send(f"/setup/keys/{own}/revoke/")
    assert f">{own}<" not in administrator.see(page)


def test_a_large_book_is_compared_when_somebody_asks_for_it(
    administrator: ConsoleClient,
    batches: BatchClient,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = batches.supplier.accounts(3)
    batches.run([first, second])
    last = batches.run([third])["batch_id"]
    with sessions.begin() as session:
        session.execute(update(Ledger).values(ledger_balance=-1))
    page = f"/suppliers/{batches.supplier.code}/reconciliation/"
    all_differ = "Nothing is open. 3 created accounts differ."
    monkeypatch.setattr(suppliers, "LARGE", 2)
    assert administrator.lead(page) == _NOT_COMPARED_YET
    monkeypatch.setattr(suppliers, "_SECONDS", 0)
    begun = text_of(administrator.see(f"{page}?compare=1"))
    assert "3 of 3 accounts and lines have been compared." in begun
    assert _NOT_COMPARED_YET in begun
    monkeypatch.undo()
    of_batch = "Nothing is open. 1 created account differs. 1 total of the file is not accounted for."
    assert administrator.lead(f"{page}?batch={last}") == of_batch
    assert administrator.lead(page) == all_differ
    monkeypatch.setattr(suppliers, "LARGE", 2)
    assert administrator.lead(page) == all_differ, "the kept one"


def test_an_account_that_differs_is_listed_with_its_paths_and_masked_values(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    page = f"/suppliers/{batches.supplier.code}/reconciliation/"
    assert administrator.lead(page) == "Nothing is open. Nothing was compared."
    assert "refused accounts of single requests" in administrator.see(page)
    (account,) = batches.supplier.accounts(1)
    account["customers"] = [{"family_name": "Jansen"}]
    account["ledgers"] = [{"ledger_code": "E", "ledger_balance": 10}]
    batches.run([account])
    assert (
        administrator.lead(page)
        == "Nothing is open. Every value of 1 created account matches what was staged."
    )
    assert all(it in administrator.see(page) for it in NOT_COMPARED)
    with sessions.begin() as session:
        session.execute(update(Ledger).values(ledger_balance=12.5, ledger_code="F"))
        session.execute(update(Customer).values(family_name="De Boer", given_name="A", email="a@b.example"))
        session.execute(update(Account).values(billing_postcode="X", unknown_occupier=True))
    shown = administrator.see(page)
    assert "De Boer" not in shown
    number = account["external_account_number"]
    shown = text_of(shown)
    assert f"{number} ledgers.0.ledger_balance 10 12.5" in shown
    assert f'{number} customers.0.family_name "•••" "•••"' in shown
    assert f"{number} and 2 more values" in shown
