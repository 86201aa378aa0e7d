"""Sections 2.5 and 4.9: transactions are added to accounts that exist, all of a request or none."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from werkzeug.test import TestResponse

from migration_payloads.schemas.json import parse_json
from migration_service.tasks.resources import WorkerResources
from support.imported_account import LEDGER, ImportedAccount, codes_of
from support.supplier_client import SupplierClient

ADDED, EXISTS = "TRANSACTION_ADDED_TO_ACCOUNT", "TRANSACTION_ALREADY_EXISTS"
TODAY = datetime.now(UTC).date()
#: The first and the last day of the open period of the ledger that every account here has.
FIRST, LAST = date(2020, 2, 1), TODAY

PAYMENT: dict[str, Any] = {
    "transaction_id": "T-1",
    "transaction_date": "2025-03-01",
    "amount": 85.5,
    "type": "PAYMENT",
    "payment_type": "DD_REGULAR_COLLECTION",
    "reference": "",
    "note": "as sent",
}
SUPPLY_CHARGE: dict[str, Any] = {
    "transaction_id": "T-2",
    "transaction_date": "2025-03-02",
    "amount": "12.10",
    "type": "SUPPLY_CHARGE",
    "supply_type": "GAS",
    "product_code": "GAS-1",
    "associated_invoice_number": "INV-1",
}


def _results(answer: TestResponse) -> list[dict[str, Any]]:
    assert answer.status_code == 201, answer.text
    results: list[dict[str, Any]] = parse_json(answer.data)["results"]
    return results


def _statuses(answer: TestResponse) -> list[str]:
    return [result["status"] for result in _results(answer)]


def _failure(answer: TestResponse) -> dict[str, Any]:
    assert answer.status_code == 400, answer.text
    body: dict[str, Any] = parse_json(answer.data)
    assert body["status"] == "TRANSACTION_IMPORT_ERROR"
    assert body["error_detail"]
    return body


def test_a_transaction_that_was_added_before_is_skipped_and_returned(account: ImportedAccount) -> None:
    account.post_transactions(PAYMENT)
    new = PAYMENT | {"transaction_id": "T-3"}
    changed = PAYMENT | {"note": "another", "associated_invoice_number": "INV-2", "amount": "85.50"}
    report = parse_json(account.post_transactions(changed, new, report="full").data)
    unchanged = "existing_transaction_not_changed"
    assert [(it["attr"], it["code"]) for it in report["warnings"]] == [
        ("transactions.0.note", unchanged),
        ("transactions.0.associated_invoice_number", unchanged),
    ]
    first, second = report["result"]["results"]
    assert (first["status"], second["status"]) == (EXISTS, ADDED)
    expected = PAYMENT | {"amount": Decimal("85.5"), "status": "TRANSACTION_IMPORT_SUCCESS"}
    assert first["transaction_data"] == expected
    assert "status" not in second["transaction_data"]
    assert account.balance() == Decimal("10.00") + 2 * Decimal("85.5")


def test_a_transaction_of_the_staged_payload_counts_as_added_before(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    ledger = LEDGER | {"transactions_in_open_settlement_period": [PAYMENT]}
    account = ImportedAccount.create(supplier, worker_resources, ledgers=[ledger])
    answer = account.post_transactions(PAYMENT)
    assert (_statuses(answer), answer.headers.get("X-Warning-Count")) == ([EXISTS], "0")
    assert account.post_transactions(PAYMENT | {"reference": "R"}).headers["X-Warning-Count"] == "1"
    assert account.balance() == Decimal("10.00")


def test_a_transaction_whose_date_was_changed_is_the_same_when_it_is_sent_again(
    account: ImportedAccount,
) -> None:
    """The account has another date, and a note about it."""
    for note in ({}, {"note": ""}, {"note": "two\r\nlines"}):
        moved = {
            **PAYMENT,
            "note": None,
            "transaction_id": f"M {note}",
            "transaction_date": "2019-01-01",
        } | note
        moved = {name: value for name, value in moved.items() if value is not None}
        assert _statuses(account.post_transactions(moved)) == [ADDED]
        again = account.post_transactions(moved)
        assert (_statuses(again), again.headers["X-Warning-Count"]) == ([EXISTS], "0")
        (existing,) = _results(again)
        answered = existing["transaction_data"]
        assert (answered["transaction_date"], answered["status"]) == (
            str(FIRST),
            "TRANSACTION_IMPORT_SUCCESS",
        )
        dated = {"transaction_date": answered["transaction_date"]}
        for same in (answered, moved | dated, answered | {"transaction_date": moved["transaction_date"]}):
            back = account.post_transactions(same)
            assert (_results(back), back.headers["X-Warning-Count"]) == ([existing], "0")
        noted = account.post_transactions(answered | {"note": "x", "status": "LOST"}, report="full")
        assert [(it["attr"], it["code"]) for it in parse_json(noted.data)["warnings"]] == [
            ("transactions.0.status", "unknown_field"),
            ("transactions.0.note", "existing_transaction_not_changed"),
        ]
    unforced = account.post_transactions(moved, force_add_to_current_statement="false")
    assert (_statuses(unforced), len(account.notes())) == ([EXISTS], 3), "each was explained once"
    other = account.post_transactions(moved | {"transaction_date": "2019-01-02"}, report="full")
    assert [it["attr"] for it in parse_json(other.data)["warnings"]] == ["transactions.0.transaction_date"]


@pytest.mark.parametrize("change", [{"amount": 85.51}, {"type": "CREDIT"}])
def test_another_amount_or_type_with_a_known_id_is_an_error(
    account: ImportedAccount, change: dict[str, Any]
) -> None:
    other = PAYMENT | change
    body = _failure(account.post_transactions(PAYMENT, other))
    assert (body["code"], body["errors"][0]["attr"]) == (
        "transaction_id_already_used",
        "transactions.1.transaction_id",
    )
    account.post_transactions(PAYMENT)
    _failure(account.post_transactions(other))
    assert account.balance() == Decimal("95.50")


@pytest.mark.parametrize(("sent", "moved_to"), [(FIRST - timedelta(days=1), FIRST), (date(2999, 1, 1), LAST)])
def test_a_transaction_outside_the_open_period_is_moved_and_a_pinned_note_explains_it(
    account: ImportedAccount, sent: date, moved_to: date
) -> None:
    transaction = PAYMENT | {"transaction_date": str(sent)}
    (result,) = _results(account.post_transactions(transaction))
    assert result["status"] == ADDED
    (added,) = account.added_transactions()
    assert added["transaction_date"] == moved_to
    as_sent, explanation = added["note"].split("\n")
    assert as_sent == "as sent"
    for day in (sent, moved_to, FIRST, LAST):
        assert str(day) in explanation
    assert result["transaction_data"]["transaction_date"] == str(moved_to)
    assert result["transaction_data"]["note"] == added["note"]
    (note,) = account.notes()
    assert note["is_pinned"]
    assert note["body"] == f"Transaction T-1: {explanation}"


def _meter_point(ean: str, supply_type: str) -> dict[str, Any]:
    return {"ean": ean, "supply_type": supply_type}


@pytest.mark.parametrize(
    ("transaction", "ledger_code"),
    [
        (PAYMENT, "ENERGY_LEDGER"),
        (SUPPLY_CHARGE, "GAS_LEDGER"),
        (SUPPLY_CHARGE | {"supply_type": "ELECTRICITY"}, "ENERGY_LEDGER"),
    ],
)
def test_a_transaction_goes_to_the_ledger_of_its_supply_type_or_the_energy_ledger(
    supplier: SupplierClient, worker_resources: WorkerResources, transaction: dict[str, Any], ledger_code: str
) -> None:
    electricity, gas = "871687120000000017", "871687120000000024"
    account = ImportedAccount.create(
        supplier,
        worker_resources,
        supply_addresses=[
            {"meter_points": [_meter_point(gas, "GAS"), _meter_point(electricity, "ELECTRICITY")]}
        ],
        ledgers=[
            LEDGER | {"ledger_code": "GAS_LEDGER", "identifiers": [gas]},
            LEDGER | {"identifiers": [electricity]},
        ],
    )
    assert _statuses(account.post_transactions(transaction)) == [ADDED]
    assert len(account.added_transactions(ledger_code)) == 1


@pytest.mark.parametrize(
    ("change", "attr", "code"),
    [
        ({"amount": "ten"}, "amount", "invalid"),
        ({"transaction_date": "01-03-2025"}, "transaction_date", "invalid_date"),
        ({"tax_items": [{"amount": 1, "tax_type": "VAT", "params": {"vat_on": "?"}}]}, None, None),
    ],
)
def test_a_faulty_transaction_is_returned_as_sent_and_none_is_added(
    account: ImportedAccount, change: dict[str, Any], attr: str | None, code: str | None
) -> None:
    faulty = PAYMENT | {"transaction_id": "T-9", "amount": 1} | change
    answer = account.post_transactions(PAYMENT, faulty)
    body = _failure(answer)
    assert body["code"] == "request_failed_validation"
    assert body["transaction_data"] == faulty
    if attr:
        assert codes_of(answer) == [(f"transactions.1.{attr}", code)]
        assert body["error_detail"].startswith(f"transactions.1.{attr}: ")
    else:
        path = "transactions.1.tax_items.0.params.vat_on"
        assert codes_of(answer) == [(path, "unknown_vat_reference")]
    assert account.added_transactions() == []


@pytest.mark.parametrize("transaction", [7, None, []])
def test_a_transaction_that_is_not_an_object_is_returned_as_sent(
    account: ImportedAccount, transaction: Any
) -> None:
    assert _failure(account.post_transactions(transaction))["transaction_data"] == transaction


@pytest.mark.parametrize("argument", ["check_previously_added", "force_add_to_current_statement"])
def test_an_argument_that_is_neither_true_nor_false_is_refused(
    account: ImportedAccount, argument: str
) -> None:
    answer = account.post_transactions(PAYMENT, **{argument: "perhaps"})
    assert _failure(answer)["transaction_data"] is None
    assert codes_of(answer) == [(argument, "invalid")]


def test_every_refusal_has_the_body_of_a_failed_import(account: ImportedAccount) -> None:
    unknown = ImportedAccount(account.supplier, "nobody's").post_transactions(PAYMENT)
    assert _failure(unknown)["code"] == "account_not_found"
    stranger = account.supplier.post(
        "/transactions/create/", {**account.pair, "import_supplier": "NOBODY", "transactions": [PAYMENT]}
    )
    assert _failure(stranger)["code"] == "import_supplier_not_found"
    empty = account.post_transactions()
    assert _failure(empty)["errors"][0]["code"] == "empty"
    broken = account.supplier.post("/transactions/create/", data=b"{", content_type="application/json")
    assert _failure(broken)["code"] == "parse_error"


def test_more_than_a_thousand_transactions_are_added_in_one_request(account: ImportedAccount) -> None:
    """SQLAlchemy inserts a thousand in a statement."""
    many = [PAYMENT | {"transaction_id": f"T-{number}", "amount": 1} for number in range(1_100)]
    assert set(_statuses(account.post_transactions(*many))) == {ADDED}
    assert set(_statuses(account.post_transactions(*many))) == {EXISTS}
    assert account.balance() == Decimal("1110.00")
