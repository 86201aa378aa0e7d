"""Taking back what a batch has added: accounts are as before, to the cent, and nothing else changes."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select, update

from migration_service.models import Ledger, Statement, Transaction
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.setup.vendors import set_vendor_rate
from support.audit import audited
from support.batch_client import BatchClient, counts
from support.imported_account import ImportedAccount, refusal_of
from support.rows import set_live
from support.undo_client import UndoClient, dump
from support.vendor_servers import make_sandbox_vendor

TODAY = datetime.now(UTC).date().isoformat()
_ITEMS = [{"rate_band": "STANDARD", "net_amount": "1.00"}]


def _payment(name: str, amount: str = "2.50", day: str = TODAY, **more: Any) -> dict[str, Any]:
    return {"transaction_id": name, "transaction_date": day, "amount": amount, "type": "PAYMENT", **more}


def _statement(name: str, **more: Any) -> dict[str, Any]:
    days = {"issued_date": TODAY, "bill_period_from_date": "2020-02-01", "bill_period_to_date": TODAY}
    return {"statement_id": name, "number": f"R-{name}", "gross_amount": 1200, **days, **more}


@pytest.fixture
def accounts(batches: BatchClient) -> list[ImportedAccount]:
    return [ImportedAccount.create(batches.supplier, batches.resources) for _ in range(3)]


def _state(batches: BatchClient) -> dict[str, Any]:
    """Return every row but the acknowledgements of lines, which say what was taken back."""
    tables = dump(batches.supplier.Session)
    return {name: rows for name, rows in tables.items() if name not in ("acknowledgement", "payment_vendor")}


@pytest.mark.parametrize("kind", ["notes", "transactions", "statements", "payment-instructions"])
def test_a_batch_is_taken_back_and_nothing_else(
    kind: str, batches: BatchClient, accounts: list[ImportedAccount], sandbox_url: str
) -> None:
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
    preview = undos.preview(batch=batch_id)
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


@pytest.mark.parametrize("what", ["number", "period", "closing", "live", "erased"])
def test_what_is_settled_live_or_erased_is_kept(
    what: str, batches: BatchClient, accounts: list[ImportedAccount]
) -> None:
    booked = [_payment("a", associated_invoice_number="R-late"), _payment("b", day="2021-05-05")]
    lines = [it.pair | {"transactions": booked} for it in accounts[:2]]
    report = batches.run(lines, kind="transactions")
    first = accounts[0]
    with batches.supplier.Session.begin() as session:
        if what == "closing":
            session.execute(update(Ledger).values(last_settlement_closing_date=datetime(2021, 6, 1)))
        elif what == "erased":
            erase_account(session, batches.supplier.known(), first.number, reason="Asked for.")
    if what == "number":
        period = {"bill_period_from_date": "2020-02-01", "bill_period_to_date": "2020-03-01"}
        assert first.post_statements(_statement("late", **period)).status_code == 201
    elif what == "period":
        period = {"bill_period_from_date": "2021-05-01", "bill_period_to_date": "2021-06-01"}
        assert first.post_statements(_statement("other", **period)).status_code == 201
    balances = [it.balance() for it in accounts]
    undos = UndoClient(batches.supplier)
    undo_id = undos.start(batch=report["batch_id"])
    if what == "live":
        with batches.supplier.Session.begin() as session:
            set_live(session, batches.supplier.code, None)
    undos.work(undo_id)
    code = {"live": "import_supplier_live", "erased": "account_erased"}.get(what, "settled_later")
    kept = [[code], [code] if what in ("closing", "live") else []]
    assert undos.reasons(undo_id) == kept
    added = Decimal("5.00")
    assert [it.balance() for it in accounts[:2]] == [
        balance - (0 if reasons else added) for balance, reasons in zip(balances, kept, strict=False)
    ]
    if code == "settled_later":
        assert undos.preview(batch=report["batch_id"])["revertible_with_overrides"] == sum(map(bool, kept))


def test_a_note_of_a_statement_is_no_settlement_and_undone_accounts_are_gone(
    batches: BatchClient, accounts: list[ImportedAccount]
) -> None:
    # A statement that was there before the transaction settles nothing.
    assert accounts[0].post_statements(_statement("before")).status_code == 201
    lines = [
        it.pair | {"transactions": [_payment("a", associated_invoice_number="R-before")]} for it in accounts
    ]
    report = batches.run(lines, kind="transactions")
    with batches.supplier.Session.begin() as session:  # Nor does one of the same moment.
        own = select(Transaction.created_at).where(Transaction.account_pk == Statement.account_pk)
        session.execute(update(Statement).values(created_at=own.scalar_subquery()))
    undos = UndoClient(batches.supplier)
    undos.run(accounts[2].number, overrides=[])
    preview = undos.preview(batch=report["batch_id"])
    assert (preview["accounts"], preview["revertible"], preview["blockers"]) == (3, 3, [])
    with batches.supplier.Session() as session:
        assert session.query(Statement).count() == 1


def test_what_a_newer_version_has_by_now_is_kept(
    batches: BatchClient, accounts: list[ImportedAccount]
) -> None:
    (payload,) = batches.supplier.accounts()
    number = payload["external_account_number"]
    ledger = {"ledger_code": "ENERGY_LEDGER", "ledger_balance": "2.50"}
    own = payload | {"ledgers": [ledger | {"transactions_in_open_settlement_period": [_payment("own")]}]}
    batches.run([own])
    pair = accounts[0].pair | {"external_account_number": number}
    first = batches.run([pair | {"transactions": [_payment("own"), _payment("a")]}], kind="transactions")
    bill = _statement("b", bill_period_to_date="2020-03-01")
    second = batches.run([pair | {"statements": [bill]}], kind="statements")
    undos = UndoClient(batches.supplier)
    for it in (first, second):
        assert undos.preview(batch=it["batch_id"])["blockers"] == [], "what was there before blocks nothing"
    both = {"transactions_in_open_settlement_period": [_payment("own"), _payment("a")]}
    newer = own | {"ledgers": [ledger | both | {"ledger_balance": "5.00"}], "statements": [bill]}
    assert counts(batches.run([newer], replace="differing")) == {"REPLACED": 1}
    for it in (first, second):
        report = undos.run(batch=it["batch_id"])
        assert report["kept_counts"] == {"settled_later": 1}, "it is in the balance of the newer version"
    assert batches.supplier.reconcile()["clean"]


def _acknowledge(batches: BatchClient, batch_id: str, *lines: int) -> Any:
    body = {"reason": "Not ours.", "batch": batch_id} | ({"line_numbers": list(lines)} if lines else {})
    return batches.supplier.post(f"/reconciliation/{batches.supplier.code}/acknowledgements/", body)


def test_a_line_that_was_added_is_not_acknowledged_but_taken_back(
    batches: BatchClient, accounts: list[ImportedAccount]
) -> None:
    """Otherwise nobody would compare it any more, and no undo would take it back."""
    later = batches.supplier.accounts()[0]
    numbers = [accounts[0].number, later["external_account_number"]]
    lines = [accounts[0].pair | {"external_account_number": it} for it in numbers]
    report = batches.run([it | {"transactions": [_payment("a")]} for it in lines], kind="transactions")
    batch_id = report["batch_id"]
    assert counts(report) == {"ADDED": 1, "FAILED": 1}
    refused = _acknowledge(batches, batch_id, 1)
    assert (refusal_of(refused), (refused.json or {})["errors"][0]["attr"]) == (
        (400, "request_failed_validation"),
        "line_numbers.0",
    )
    assert (_acknowledge(batches, batch_id).json or {})["acknowledged"] == 1
    # A line that was closed and is added after all counts as any other.
    batches.run([later])
    assert batches.change(batch_id, "retry-failed").status_code == 200
    batches.work()
    assert counts(batches.get(batch_id)) == {"ADDED": 2}
    sent = batches.supplier.reconcile(f"?batch={batch_id}")
    assert (sent["clean"], sent["sent"]["created"], sent["sent"]["skipped"]) == (True, 2, 0)
    assert UndoClient(batches.supplier).run(batch=batch_id)["counts"]["REVERTED"] == 2
    assert batches.supplier.reconcile()["clean"]
