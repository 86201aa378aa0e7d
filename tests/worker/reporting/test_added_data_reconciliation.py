"""Reconciliation of what batches added: sent and stored, by measure and by account, to the cent."""

from typing import Any

import pytest

from support.batch_client import BatchClient, counts


@pytest.fixture
def numbers(batches: BatchClient) -> list[str]:
    accounts = batches.supplier.accounts(2)
    assert counts(batches.run(accounts)) == {"IMPORTED": 2}
    return [account["external_account_number"] for account in accounts]


def _transaction(id_: str, amount: Any, type_: str = "PAYMENT") -> dict[str, Any]:
    return {"transaction_id": id_, "transaction_date": "2026-10-01", "amount": amount, "type": type_}


def _totals(found: dict[str, Any]) -> dict[str, tuple[float, float]]:
    return {
        it["measure"]: (float(it["staged"]), float(it["created"]))
        for it in found["totals"]
        if it["measure"].startswith("added")
    }


def test_every_cent_that_a_batch_sent_is_on_the_accounts(batches: BatchClient, numbers: list[str]) -> None:
    first, second = numbers
    lines = [
        batches.line(first, transactions=[_transaction("a", "10.01"), _transaction("b", 5, "CHARGE")]),
        batches.line(second, transactions=[_transaction("a", "0.30")]),
        batches.line(first, transactions=[_transaction("a", "10.010")]),  # again: counts once
        batches.line(first, transactions=[_transaction("a", "99.00")]),
        batches.line("nobody", transactions=[_transaction("a", "1.00")]),
    ]
    report = batches.run(lines, kind="transactions")
    assert counts(report) == {"ADDED": 2, "ALREADY_ADDED": 1, "FAILED": 2}
    found = batches.supplier.reconcile(f"?batch={report['batch_id']}")
    assert (found["clean"], found["created_clean"], found["complete"]) == (False, True, False)
    assert _totals(found) == {
        "added transactions": (3, 3),
        "added amount of PAYMENT": (10.31, 10.31),
        "added amount of CHARGE": (5, 5),
    }
    told = {"sent": 5, "refused": 2, "created": 3, "open": 2, "added_lines_refused": 2}
    assert {name: number for name, number in found["sent"].items() if number} == told
    assert [(it["line_number"], it["reason"], it["errors"][0]["code"]) for it in found["open"]] == [
        (4, "REFUSED", "transaction_id_already_used"),
        (5, "REFUSED", "account_not_found"),
    ]
    whole = batches.supplier.reconcile()
    assert (whole["sent"]["added_lines_refused"], whole["sent"]["open"], whole["complete"]) == (2, 2, False)
