"""Taking back what a batch has added: accounts are as before, to the cent, and nothing else changes."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from migration_service.services.setup.vendors import set_vendor_rate
from support.audit import audited
from support.batch_client import BatchClient, counts
from support.factories import json_of
from support.imported_account import ImportedAccount, refusal_of
from support.undo_client import UndoClient, dump
from support.vendor_servers import make_sandbox_vendor

TODAY = datetime.now(UTC).date().isoformat()
_ITEMS = [{"rate_band": "STANDARD", "net_amount": "1.00"}]


def _payment(name: str, amount: str = "2.50", day: str = TODAY, **more: Any) -> dict[str, Any]:
    return {"transaction_id": name, "transaction_date": day, "amount": amount, "type": "PAYMENT", **more}


def _statement(name: str, **more: Any) -> dict[str, Any]:
    days = {"issued_date": TODAY, "bill_period_from_date": "2020-02-01", "bill_period_to_date": TODAY}
    return {"statement_id": name, "number": f"R-{name}", "gross_amount": 1200, **days, **more}


def _state(batches: BatchClient) -> dict[str, Any]:
    """Return every row but the acknowledgements of lines, which say what was taken back."""
    tables = dump(batches.supplier.Session)
    return {name: rows for name, rows in tables.items() if name not in ("acknowledgement", "payment_vendor")}


@pytest.mark.parametrize("kind", ["notes", "transactions", "statements", "payment-instructions"])
def test_a_batch_is_taken_back_and_nothing_else(kind: str, batches: BatchClient, sandbox_url: str) -> None:
    accounts = [ImportedAccount.create(batches.supplier, batches.resources) for _ in range(3)]
    vendor = make_sandbox_vendor(batches.supplier.Session, sandbox_url)
    with batches.supplier.Session.begin() as session:
        set_vendor_rate(session, vendor, Decimal(500))
    kinds: dict[str, list[dict[str, Any]]] = {
        "notes": [{"notes": [{"body": it}]} for it in ("one", "two")],
        "transactions": [
            {
                "transactions": [
                    _payment("new", "7.77"),
                    _payment("moved", day="2019-01-01"),
                    _payment("known"),
                ]
            },
            {"transactions": [_payment("charge") | {"type": "CHARGE", "line_items": _ITEMS}]},
        ],
        "statements": [
            {"statements": [_statement("new"), _statement("known")]},
            {"statements": [_statement("2")]},
        ],
        "payment-instructions": [
            {"vendor": vendor, "reference": it, "type": "CARD"} for it in ("card-ok-1", "card-ok-2")
        ],
    }
    members = kinds[kind]
    # What was there before, also as a part of the batch, stays.
    accounts[0].post_transactions(_payment("known"))
    accounts[0].post_statements(_statement("known"))
    before, read = _state(batches), [it.read() for it in accounts]
    lines = [account.pair | it for account, it in zip(accounts[:2], members, strict=True)]
    report = batches.run(lines, kind=kind)
    batch_id = report["batch_id"]
    assert counts(report) == {"ADDED": 2}
    assert [it.read() for it in accounts] != read
    # What another batch has added since stays, too.
    batches.run([accounts[2].pair | {"notes": [{"body": "later"}]}], kind="notes")
    undos = UndoClient(batches.supplier)
    asked = {"import_supplier": batches.supplier.code, "batch": batch_id}
    preview = json_of(batches.supplier.post("/undos/preview/", asked))
    assert {it: preview[it] for it in ("accounts", "revertible", "emails", "gone")} == {
        **{"accounts": 2, "revertible": 2},
        **{"emails": 0, "gone": 0},
    }
    report = undos.run(batch=batch_id)
    assert (report["state"], report["counts"]["REVERTED"], report["accounts"]) == ("COMPLETED", 2, 2)
    assert [it.read() for it in accounts[:2]] == read[:2]
    assert [it["body"] for it in accounts[2].notes()] == ["later"]
    after = _state(batches)
    assert {name for name in after if after[name] != before[name]} <= {"note"}
    assert batches.supplier.reconcile(f"?batch={batch_id}")["clean"]
    book = batches.supplier.reconcile()
    assert (book["clean"], book["differing"]) == (True, 0)
    assert refusal_of(undos.post(batch=batch_id)) == (400, "nothing_to_undo")
    (entry,) = audited(batches.supplier.Session, action="undo.started")
    assert (entry.details or {})["accounts"] == 2
    # It can be sent again, and what is added then gets its place behind what is there.
    assert counts(batches.run(lines, kind=kind)) == {"ADDED": 2}
    assert batches.supplier.reconcile()["clean"]
