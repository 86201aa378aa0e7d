"""Reconciliation finds every difference, and nothing if there is none. Old lines are removed."""

import json
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select, update

from migration_service.models import Account, Ledger
from migration_service.services.setup.suppliers import create_import_supplier
from support.batch_client import BatchClient

pytestmark = pytest.mark.usefixtures("neighbour")


def _totals(report: dict[str, Any]) -> dict[str, tuple[Decimal, Decimal]]:
    return {it["measure"]: (Decimal(it["staged"]), Decimal(it["created"])) for it in report["totals"]}


def _import(batches: BatchClient, number: int = 4) -> tuple[list[dict[str, Any]], str]:
    accounts = batches.supplier.accounts(number)
    return accounts, str(batches.run(accounts)["batch_id"])


def test_an_imported_book_has_no_differences_and_the_sums_of_the_file(batches: BatchClient) -> None:
    accounts, _ = _import(batches, 6)
    report = batches.supplier.reconcile()
    assert (report["clean"], report["differing"], report["differences"]) == (True, 0, [])
    totals = _totals(report)
    assert all(staged == created for staged, created in totals.values())
    ledgers = [ledger for account in accounts for ledger in account["ledgers"]]
    transactions = [
        transaction
        for ledger in ledgers
        for kind in ("transactions_in_open_settlement_period", "historical_statement_transactions")
        for transaction in ledger.get(kind, ())
    ]
    addresses = [address for account in accounts for address in account["supply_addresses"]]
    meter_points = [point for address in addresses for point in address["meter_points"]]
    assert totals["accounts"][0] == 6
    assert totals["customers"][0] == sum(len(account.get("customers", ())) for account in accounts)
    assert totals["meter_points"][0] == len(meter_points)
    assert totals["agreements"][0] == sum(len(point["agreements"]) for point in meter_points)
    assert totals["statements"][0] == sum(len(account["statements"]) for account in accounts)
    assert totals["transactions"][0] == len(transactions)
    balance = sum(Decimal(str(ledger["ledger_balance"])) for ledger in ledgers)
    assert totals["ledger_balances"] == (balance, balance)
    paid = sum(Decimal(str(it["amount"])) for it in transactions if it["type"] == "PAYMENT")
    assert totals["amount of PAYMENT"] == (paid, paid)


def _acknowledge(batches: BatchClient, **body: Any) -> Any:
    path = f"/reconciliation/{batches.supplier.code}/acknowledgements/"
    return batches.supplier.post(path, json={"reason": "Closed before the migration."} | body)


def test_an_acknowledged_account_is_no_longer_open(batches: BatchClient) -> None:
    (broken,) = batches.supplier.accounts(1)
    number = broken["external_account_number"]
    wrong = broken | {"customers": "nobody"}
    batch_id = batches.run([wrong, b"{}", b"{", b"[]"])["batch_id"]
    assert _acknowledge(batches, external_account_numbers=[number]).json == {"acknowledged": 1}
    assert _acknowledge(batches, batch=batch_id, line_numbers=[3]).json == {"acknowledged": 1}
    with patch("migration_service.services.reconciliation.answer.WRITTEN", 1):
        report = batches.supplier.reconcile()
    assert [it["line_number"] for it in report["open"]] == [2, 4]
    assert (report["sent"]["acknowledged"], report["sent"]["open"]) == (2, 2)
    assert _acknowledge(batches, batch=batch_id).status_code == 201
    assert batches.supplier.reconcile()["open"] == []
    path = f"/reconciliation/{batches.supplier.code}/acknowledgements/"
    found: Any = batches.supplier.get(path).json
    for piece in (1, 3, 4, 5):
        with patch("migration_service.services.reconciliation.acknowledgements.PIECE", piece):
            answer = batches.supplier.get(path, buffered=False)
            pieces = list(answer.iter_encoded())
        assert (json.loads(b"".join(pieces)), len(pieces)) == (found, -(-4 // piece) + 1)
    assert found[-1]["external_account_number"] == number
    assert found[-1]["reason"] == "Closed before the migration."
    assert found[-1]["acknowledged_by"].startswith("API key ")
    assert {it["line_number"] for it in found[:-1]} == {2, 3, 4}


def test_only_refused_accounts_can_be_acknowledged(batches: BatchClient) -> None:
    accounts, batch_id = _import(batches, 2)
    number = accounts[0]["external_account_number"]
    for body, attr in (
        ({"external_account_numbers": ["unknown"]}, "external_account_numbers.0"),
        ({"external_account_numbers": [number]}, "external_account_numbers.0"),
        ({"batch": batch_id, "line_numbers": [1]}, "line_numbers.0"),
        ({}, "external_account_numbers"),
        ({"batch": batch_id, "external_account_numbers": [number]}, "external_account_numbers"),
        ({"external_account_numbers": [number], "line_numbers": [1]}, "batch"),
        ({"external_account_numbers": [number], "reason": " "}, "reason"),
    ):
        answer = _acknowledge(batches, **body)
        assert (answer.status_code, answer.json["errors"][0]["attr"]) == (400, attr)


def test_a_number_that_json_does_not_have_is_a_text(batches: BatchClient) -> None:
    accounts, _ = _import(batches, 1)
    with batches.supplier.Session.begin() as session:
        number = accounts[0]["external_account_number"]
        ids = select(Account.id).where(Account.external_account_number == number)
        session.execute(update(Ledger).where(Ledger.account_pk.in_(ids)).values(ledger_balance="NaN"))
    report = batches.supplier.reconcile()
    (sums,) = (it for it in report["totals"] if it["measure"] == "ledger_balances")
    assert (sums["created"], report["differences"][0]["values"][0]["created"]) == ("NaN", "NaN")


def test_a_batch_of_another_supplier_is_not_found_even_within_the_organisation(batches: BatchClient) -> None:
    _, batch_id = _import(batches)
    other = f"{batches.supplier.code}_2"
    with batches.supplier.Session.begin() as session:
        create_import_supplier(session, code=other, organisation_name=batches.supplier.organisation)
    answer = batches.supplier.get(f"/reconciliation/{other}/?batch={batch_id}")
    assert (answer.status_code, (answer.json or {})["code"]) == (404, "batch_not_found")
    own = batches.supplier.get(f"/reconciliation/{batches.supplier.code}/?batch={batch_id}")
    assert own.status_code == 200
