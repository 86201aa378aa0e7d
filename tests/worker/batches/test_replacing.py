"""Replacing created accounts by a newer version: under the same number, with what was added since."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from migration_service.models import (
    Account,
    Batch,
    Customer,
    CustomerEmail,
    ImportSupplier,
    Ledger,
    PaymentInstruction,
    PaymentVendor,
)
from migration_service.services.access.api_keys import KeyLimits, issue_api_key
from migration_service.services.access.scopes import Scope
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.accounts.reading import find_account
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.services.undo import replacements
from migration_service.states import EmailState
from support.audit import audited
from support.batch_client import BatchClient, counts
from support.imported_account import LEDGER, ImportedAccount, codes_of, refusal_of

pytestmark = pytest.mark.usefixtures("neighbour")

TODAY = datetime.now(UTC).date().isoformat()
GAS = LEDGER | {"ledger_code": "GAS_LEDGER", "ledger_balance": "0.00", "last_settlement_balance": "0.00"}
STATEMENT = {
    "statement_id": "later",
    "number": "R-9",
    "issued_date": "2025-01-31",
    "bill_period_from_date": "2024-01-31",
    "bill_period_to_date": "2025-01-31",
    "gross_amount": 1200,
    "statement_path": "later.pdf",
}


def _paid(name: str, amount: str = "2.50", day: str = TODAY) -> dict[str, Any]:
    return {"transaction_id": name, "transaction_date": day, "amount": amount, "type": "PAYMENT"}


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


def test_an_account_is_created_again_under_its_number_with_what_was_added_since(replaced: Replaced) -> None:
    account = replaced.create()
    assert account.post_notes({"body": "Called."}).status_code == 201
    credited = _paid("credited", "1.00") | {"type": "CREDIT", "reason": "IMPORTED_CREDIT"}
    assert account.post_transactions(_paid("moved"), _paid("absorbed", "4.00"), credited).status_code == 201
    assert account.post_statements(STATEMENT).status_code == 201
    before, day = account.read(), replaced.supplier.process_row(account.number).account_created_at
    newer: dict[str, Any] = {
        "billing_address1": "Keizersgracht 1",
        "ledgers": [
            LEDGER
            | {
                "ledger_balance": "14.00",
                "transactions_in_open_settlement_period": [_paid("absorbed", "4.00")],
            },
            GAS,
        ],
    }
    preview = replaced.send("dry-run", **newer)
    assert (preview["status"], preview["service_account_number"]) == ("WOULD_REPLACE", replaced.number)
    assert "billing_address1" in {it["attr"] for it in preview["warnings"]}
    assert account.read() == before
    line = replaced.send(**newer)
    assert (line["status"], line["staging_result"], line["errors"]) == ("REPLACED", "REPLACED", [])
    assert line["service_account_number"] == replaced.number
    row = replaced.supplier.process_row(account.number)
    assert (row.state, row.service_account_number, row.refused_at) == ("IMPORTED", replaced.number, None)
    assert day and row.account_created_at and row.account_created_at > day
    after = account.read()
    assert after["billing_address1"] == "Keizersgracht 1"
    assert after["added_notes"] == before["added_notes"]
    assert after["added_statements"] == before["added_statements"]
    assert [it["transaction_id"] for it in account.added_transactions()] == ["moved", "credited"]
    assert account.balance() == Decimal("17.50")
    assert [it["ledger_code"] for it in after["ledgers"]] == ["ENERGY_LEDGER", "GAS_LEDGER"]
    assert replaced.supplier.reconcile()["clean"]
    # The same again changes nothing.
    again = replaced.send(**newer)
    assert again["status"] == "ALREADY_IMPORTED"
    assert "payload_differs" not in {it["code"] for it in again["warnings"]}


def _find(session: Session, replaced: Replaced, account: ImportedAccount) -> Account:
    found = find_account(session, replaced.supplier.known().id, account.number)
    assert found
    return found


def _added_transaction(**booked: Any) -> Callable[[ImportedAccount], object]:
    return lambda account: account.post_transactions(_paid("added") | booked)


def _go_live(account: ImportedAccount) -> None:
    own = Account.external_account_number == account.number
    with account.supplier.Session.begin() as session:
        session.execute(update(Account).where(own).values(live_at=datetime(2026, 1, 1, tzinfo=UTC)))


def _all_go_live(account: ImportedAccount) -> None:
    own = ImportSupplier.code == account.supplier.code
    with account.supplier.Session.begin() as session:
        session.execute(update(ImportSupplier).where(own).values(live_at=datetime(2026, 1, 1, tzinfo=UTC)))


def _change_balance(amount: str, *ledgers: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"ledgers": [LEDGER | {"ledger_balance": amount} | members, *ledgers]}


@pytest.mark.parametrize(
    ("meanwhile", "newer", "code"),
    [
        pytest.param(_go_live, {}, "account_live", id="live"),
        pytest.param(_all_go_live, {}, "account_live", id="supplier live"),
        pytest.param(
            lambda account: account.post_transactions(_paid("x") | {"supply_type": "GAS"}),
            _change_balance("10.00", last_settlement_closing_date=TODAY),
            "added_data_does_not_fit",
            id="settled since",
        ),
        pytest.param(
            _added_transaction(), {"ledgers": [GAS]}, "added_data_does_not_fit", id="no such ledger"
        ),
        pytest.param(
            _added_transaction(),
            _change_balance("11.00", transactions_in_open_settlement_period=[_paid("added", "1.00")]),
            "added_data_does_not_fit",
            id="another amount",
        ),
        pytest.param(
            lambda account: account.post_statements(STATEMENT),
            {"statements": [STATEMENT | {"gross_amount": 1300}]},
            "added_data_does_not_fit",
            id="another statement",
        ),
    ],
)
def test_an_account_is_kept_as_it_is_if_something_blocks_it(
    replaced: Replaced, meanwhile: Callable[[ImportedAccount], Any], newer: dict[str, Any], code: str
) -> None:
    account = replaced.create()
    meanwhile(account)
    before = account.read()
    for mode in ("dry-run", "import"):
        line = replaced.send(mode, billing_address1="Keizersgracht 1", **newer)
        assert (line["status"], [it["code"] for it in line["errors"]]) == ("FAILED", [code])
    assert account.read() == before
    # It is not forgotten that there is a newer version.
    assert replaced.supplier.reconcile()["open"][0]["reason"] == "CREATED_OLDER_VERSION"


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


def test_what_was_sent_and_not_taken_is_taken_without_a_file(replaced: Replaced) -> None:
    account = replaced.create()
    newer = replaced.payload | {"billing_address1": "Keizersgracht 1"}
    (pending,) = replaced.supplier.stage_new()
    assert replaced.supplier.stage(newer).status_code == 400
    assert counts(replaced.run([newer])) == {"ALREADY_IMPORTED": 1}
    vendor = PaymentVendor(name="vendor", kind="http", url="http://localhost")
    with replaced.supplier.Session.begin() as session:
        session.add(vendor)
        session.flush()
        row = _find(session, replaced, account)
        values = {"payment_vendor_pk": vendor.id, "reference": "r", "type": "CARD", "details": {}}
        session.add(PaymentInstruction(account_pk=row.id, **values))
    answer = replaced.post(None, source="pending", replace="differing")
    assert answer.status_code == 202, answer.text
    replaced.work()
    report = replaced.get(str((answer.json or {})["batch_id"]))
    assert counts(report) == {"IMPORTED": 1, "REPLACED": 1}
    assert {it["external_account_number"] for it in replaced.results(report["batch_id"])} == {
        account.number,
        pending,
    }
    assert account.read()["billing_address1"] == "Keizersgracht 1"
    assert len(account.read()["added_payment_instructions"]) == 1
    assert replaced.supplier.reconcile()["clean"]


def test_an_older_extract_and_an_erased_account_replace_nothing(replaced: Replaced) -> None:
    account = replaced.create()
    newer = replaced.payload | {"billing_address1": "Keizersgracht 1"}
    assert counts(replaced.run([newer], replace="differing", extracted_at="2026-03-02T00:00:00Z")) == {
        "REPLACED": 1
    }
    late = replaced.payload | {"billing_address1": "Singel 9"}
    report = replaced.run([late], replace="differing", extracted_at="2026-03-01T00:00:00Z")
    assert counts(report) == {"ALREADY_IMPORTED": 1}
    assert replaced.supplier.stage(newer | {"billing_address1": "Singel 10"}).status_code == 400
    with replaced.supplier.Session.begin() as session:
        erase_account(session, replaced.supplier.known(), account.number, reason="Asked for.")
    assert replaced.supplier.process_row(account.number).refused_payload is None
    assert counts(replaced.run([late], replace="differing")) == {"ALREADY_IMPORTED": 1}


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


def test_named_accounts_are_replaced_after_a_preview_that_says_what_keeps_them(replaced: Replaced) -> None:
    accounts = [replaced.create() for _ in range(5)]
    numbers = [it.number for it in accounts]
    payloads = [replaced.supplier.process_row(it).payload or {} for it in numbers]
    target = {"import_supplier": replaced.supplier.code, "external_account_numbers": numbers}
    nothing = replaced.supplier.post("/replacements/", target | {"reason": "A second delivery."})
    assert refusal_of(nothing) == (400, "nothing_to_replace")
    for path in ("", "preview/"):
        body = target | {"external_account_numbers": [numbers[0], "nobody"]}
        unknown = replaced.supplier.post(f"/replacements/{path}", body | ({} if path else {"reason": "?"}))
        assert codes_of(unknown) == [("external_account_numbers.1", "nothing_to_replace")]
    changed = [it | {"billing_address1": "Keizersgracht 1"} for it in payloads[:3]]
    for payload in (changed[0], changed[1] | {"ledgers": [GAS]}, changed[2]):
        assert replaced.supplier.stage(payload).status_code == 400
    for account in accounts[:2]:
        assert account.post_transactions(_paid("added")).status_code == 201
    _go_live(accounts[2])
    assert replaced.supplier.stage(payloads[3] | {"customers": [{"mobile": "onbekend"}]}).status_code == 400
    kept = {"account_live": 2, "newer_version_refused": 3, "added_data_does_not_fit": 1}
    with patch.object(replacements, "PIECE", 2):
        preview: dict[str, Any] = replaced.supplier.post("/replacements/preview/", target).json or {}
    assert preview == {
        "import_supplier": replaced.supplier.code,
        **{"accounts": 5, "replaced": 1, "created": 0, "unchanged": 1},
        "blockers": [
            {"code": code, "accounts": 1, "examples": [numbers[index]]} for code, index in kept.items()
        ],
    }
    headers = {"Idempotency-Key": "once"}
    body = target | {"reason": "A second delivery.", "by": "Grace"}
    answer = replaced.supplier.post("/replacements/", body, headers=headers)
    assert answer.status_code == 202, answer.text
    assert replaced.supplier.post("/replacements/", body, headers=headers).json == answer.json
    batch_id = str((answer.json or {})["batch_id"])
    assert answer.headers["Location"].endswith(f"/batches/{batch_id}/")
    replaced.work()
    lines = {it["external_account_number"]: it["status"] for it in replaced.results(batch_id)}
    assert lines == {numbers[0]: "REPLACED", numbers[1]: "FAILED"}
    (entry,) = audited(replaced.supplier.Session, action="replacement.ordered", subject=batch_id)
    assert (entry.details or {}).items() >= {"reason": "A second delivery.", "by": "Grace"}.items()


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
