"""Replacing created accounts by a newer version: under the same number, with what was added since."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from migration_service.models import (
    Account,
    Batch,
    Customer,
    CustomerEmail,
    Ledger,
)
from migration_service.services.access.api_keys import KeyLimits, issue_api_key
from migration_service.services.access.scopes import Scope
from migration_service.services.accounts.reading import find_account
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.states import EmailState
from support.batch_client import BatchClient
from support.imported_account import LEDGER, ImportedAccount

pytestmark = pytest.mark.usefixtures("neighbour")

GAS = LEDGER | {"ledger_code": "GAS_LEDGER", "ledger_balance": "0.00", "last_settlement_balance": "0.00"}


class Replaced(BatchClient):
    """An account that was created with two customers, and its newer versions."""

    def create(self) -> ImportedAccount:
        people = [{"family_name": name, "email": f"{name}@example.org"} for name in ("een", "twee")]
        account = ImportedAccount.create(
            self.supplier, self.resources, customers=people, ledgers=[LEDGER, GAS]
        )
        row = self.supplier.process_row(account.number)
        self.payload: dict[str, Any] = row.payload or {}
        self.number = row.service_account_number
        return account

    def send(self, mode: str = "import", **members: Any) -> dict[str, Any]:
        """Send a newer version in a batch that replaces. Return the result of its line."""
        report = self.run([self.payload | members], mode, replace="differing")
        (line,) = self.results(report["batch_id"])
        return line


@pytest.fixture
def replaced(batches: BatchClient) -> Replaced:
    return Replaced(batches.supplier, batches.resources)


def _find(session: Session, replaced: Replaced, account: ImportedAccount) -> Account:
    found = find_account(session, replaced.supplier.known().id, account.number)
    assert found
    return found


def test_customers_are_written_to_once(replaced: Replaced) -> None:
    with replaced.supplier.Session.begin() as session:
        set_customer_emails(session, replaced.supplier.code, on=True)
    account = replaced.create()

    def told() -> dict[str, str]:
        own = Account.external_account_number == account.number
        found = select(Customer.email, CustomerEmail.state).join(CustomerEmail).join(Account).where(own)
        with replaced.supplier.Session() as session:
            return {str(email): state for email, state in session.execute(found)}

    with replaced.supplier.Session.begin() as session:
        first = select(Customer.id).where(Customer.email == "een@example.org").scalar_subquery()
        sent = update(CustomerEmail).where(CustomerEmail.customer_pk == first)
        session.execute(sent.values(state=EmailState.SENT, sent_at=datetime.now(UTC)))
    een, twee = replaced.payload["customers"]
    people = [{"family_name": "drie", "email": "drie@example.org"}, twee, een]
    assert replaced.send(customers=people)["status"] == "REPLACED"
    assert told() == {"een@example.org": "SENT", "twee@example.org": "HELD", "drie@example.org": "HELD"}
    # Whoever was written to under an address that was wrong is not written to again.
    assert replaced.send(customers=[people[0], twee, een | {"email": "anders@example.org"}])
    assert told()["anders@example.org"] == "SENT"


def test_a_set_with_a_value_that_the_database_refuses_replaces_the_others(replaced: Replaced) -> None:
    accounts = [replaced.create() for _ in range(3)]
    payloads = [replaced.supplier.process_row(it.number).payload or {} for it in accounts]
    newer = [it | {"billing_address1": f"Keizersgracht {i}"} for i, it in enumerate(payloads)]
    with replaced.supplier.Session.begin() as session:
        # Ledgers of the second one that are in each other's way when its ledgers are set aside. One would
        # do only where PostgreSQL visits it last, which depends on the free space that its row was put in.
        row = _find(session, replaced, accounts[1])
        for i in range(1, 6):
            aside = {"ledger_code": "replaced " * i + "ENERGY_LEDGER", "ledger_balance": 0, "position": 9 + i}
            session.add(Ledger(account_pk=row.id, **aside))
    report = replaced.run(newer, replace="differing")
    assert [it["status"] for it in replaced.results(report["batch_id"])] == ["REPLACED", "FAILED", "REPLACED"]
    assert [it.read()["billing_address1"] for it in accounts] == [
        "Keizersgracht 0",
        "Singel 1",
        "Keizersgracht 2",
    ]
    with replaced.supplier.Session() as session:
        assert session.get_one(Batch, UUID(report["batch_id"])).state == "COMPLETED"


def test_a_key_needs_the_scope_to_replace(replaced: Replaced) -> None:
    account = replaced.create()
    with replaced.supplier.Session.begin() as session:
        limits = KeyLimits(scopes=[Scope.BATCHES])
        key = issue_api_key(session, organisation_name=replaced.supplier.organisation, limits=limits)
    replaced.supplier.api_key = key
    replaced.supplier.token = replaced.supplier.obtain_token()
    target = {"import_supplier": replaced.supplier.code, "external_account_numbers": [account.number]}
    assert replaced.supplier.post("/replacements/", target | {"reason": "?"}).status_code == 403
    assert replaced.post(b"{}\n", replace="differing").status_code == 403
    for mode, kind in (("stage", "accounts"), ("import", "notes")):
        refused = replaced.post(b"{}\n", mode, kind=kind, replace="differing")
        assert refused.status_code == 403
