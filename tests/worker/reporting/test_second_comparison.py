"""A second comparison reads what has changed, whatever changed it, and says what a full one says."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, text, update

from migration_service.db.base import Base
from migration_service.models import AccountImportProcess, ImportSupplier
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.reconciliation import created_accounts
from migration_service.services.reporting.retention import remove_payloads
from support.batch_client import BatchClient
from support.undo_client import UndoClient

pytestmark = pytest.mark.usefixtures("neighbour")

_COMPARE = created_accounts._compare_together


def test_every_table_that_is_compared_has_its_versions_compared() -> None:
    compared, versions = (
        {
            it.name
            for it in Base.metadata.sorted_tables
            if re.search(rf'\b(FROM|JOIN) "?{it.name}\b', statement.text)
        }
        for statement in (created_accounts.COMPARE, created_accounts._LIST_PAGE)
    )
    assert compared - versions == {"operations_team"}, "its name is only read for a difference"


@pytest.fixture
def changed(batches: BatchClient, monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[str]]:
    """Return the accounts that another comparison reads. It must say what a full one says."""
    read: set[str] = set()

    def compare(session: Any, pieces: Any) -> None:
        read.update(row.external_account_number for piece in pieces for row in piece.rows)
        _COMPARE(session, pieces)

    monkeypatch.setattr(created_accounts, "PIECE", 1)
    monkeypatch.setattr(created_accounts, "_compare_together", compare)

    def reconcile(query: str = "") -> dict[str, Any]:
        found = batches.supplier.reconcile(query)
        return {name: value for name, value in found.items() if name not in ("compared_from", "compared_at")}

    def compare_twice() -> set[str]:
        of_changes = reconcile()
        found = read.copy()
        read.clear()
        assert reconcile("?full=true") == of_changes
        with batches.supplier.Session() as session:
            mine = AccountImportProcess.import_supplier_id == batches.supplier.known().id
            assert read == set(
                session.scalars(select(AccountImportProcess.external_account_number).where(mine))
            )
        read.clear()
        return found

    return compare_twice


def test_every_kind_of_change_is_read_and_nothing_else(
    batches: BatchClient, undos: UndoClient, changed: Callable[[], set[str]]
) -> None:
    supplier = batches.supplier
    accounts = supplier.accounts(8)
    numbers = [str(it["external_account_number"]) for it in accounts]
    a, b, c, d, e, f, staged, late = numbers
    batches.run(accounts[:6])
    assert changed() == set(numbers[:6])
    assert changed() == set()

    supplier.stage(accounts[6])
    assert changed() == {staged}
    supplier.stage(accounts[6] | {"billing_address1": "Elsewhere 1"})
    assert changed() == {staged}
    supplier.stage(accounts[6] | {"billing_address1": "Elsewhere 1"})
    assert changed() <= {staged}
    supplier.stage(accounts[6] | {"customers": [{}]})
    assert changed() == {staged}, "a newer version was refused"
    with supplier.Session.begin() as session:
        skip_accounts(session, supplier.known().id, [staged])
    assert changed() == {staged}
    supplier.stage(accounts[7])
    supplier.process(late)
    supplier.work(batches.resources, late)
    assert changed() == {late}

    paid = {"amount": "5", "type": "PAYMENT", "transaction_date": f"{datetime.now(UTC):%Y-%m-%d}"}
    transactions = [paid | {"transaction_id": "added"}]
    body = batches.line(a, transactions=transactions)
    answer = supplier.post("/transactions/create/", body)
    assert answer.status_code == 201, answer.text
    assert changed() == {a}
    batches.run([batches.line(b, transactions=transactions)], kind="transactions")
    assert changed() == {b}
    batches.run([batches.line(a, notes=[{"body": "A note."}])], kind="notes")
    assert changed() == set(), "no account has a note in its payload"

    undos.run(c)
    assert changed() == {c}
    with supplier.Session.begin() as session:
        erase_account(session, supplier.known(), d, reason="Asked for.")
    assert changed() == {d}
    refused = batches.run([accounts[0] | {"external_account_number": "refused", "customers": [{}]}])
    assert changed() == set()
    body = {"reason": "Stays out.", "external_account_numbers": ["refused"]}
    assert supplier.post(f"/reconciliation/{supplier.code}/acknowledgements/", body).status_code == 201
    assert changed() == set()
    assert supplier.reconcile(f"?batch={refused['batch_id']}")["clean"]
    with supplier.Session.begin() as session:
        old = datetime(2020, 1, 1, tzinfo=UTC)
        mine = AccountImportProcess.external_account_number == e
        session.execute(update(AccountImportProcess).where(mine).values(account_created_at=old))
        while remove_payloads(session, after_days=30):
            pass
    assert changed() == {e}

    with supplier.Session.begin() as session:
        session.execute(text(_WRONG), {"number": f})
    assert changed() == {f}
    assert changed() == {f}, "what differs is compared again"
    with supplier.Session.begin() as session:
        root = update(ImportSupplier).where(ImportSupplier.code == supplier.code)
        session.execute(root.values(document_root="s3://elsewhere"))
    assert changed() == set(numbers)


#: What no door does: another value in a row below the account.
_WRONG = """
    UPDATE ledger SET ledger_balance = ledger_balance + 1
    FROM account WHERE account.id = account_pk AND external_account_number = :number
"""
