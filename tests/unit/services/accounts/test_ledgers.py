"""The open statement period of a ledger, and the places of the transactions that are added to it."""

from datetime import UTC, date, datetime

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from migration_service.models import Ledger, Transaction
from migration_service.services.accounts.added_data import Addition, OpenAccount, find_accounts
from migration_service.services.accounts.ledgers import open_period, read_ledgers
from migration_service.services.accounts.transactions import add_transactions_to_accounts
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import TransactionPeriod
from support.imported_account import ImportedAccount

TODAY = date(2026, 11, 5)


@pytest.mark.parametrize(
    ("closed", "is_open", "is_closed", "text"),
    [
        (None, ["1970-01-01", "2026-11-05"], ["2026-11-06"], "all days until 2026-11-05"),
        (
            "2026-10-31",
            ["2026-11-01", "2026-11-05"],
            ["2026-10-31", "2026-11-06"],
            "2026-11-01 to 2026-11-05",
        ),
        ("2026-11-05", ["2026-11-06"], ["2026-11-05", "2026-11-07"], "2026-11-06 to 2026-11-06"),
    ],
)
def test_days_are_open_after_the_last_settlement_until_today(
    closed: str | None, is_open: list[str], is_closed: list[str], text: str
) -> None:
    period = open_period(date.fromisoformat(closed) if closed else None, TODAY)
    assert str(period) == text
    for day in map(date.fromisoformat, is_open):
        assert (period.has(day), period.nearest(day)) == (True, day)
    for day in map(date.fromisoformat, is_closed):
        nearest = period.last if day > period.last else period.first
        assert (period.has(day), period.nearest(day)) == (False, nearest)


def _add(session: Session, account: OpenAccount, *ids: str, **more: str) -> None:
    payment = {"transaction_date": datetime.now(UTC).date(), "amount": 1, "type": "PAYMENT"}
    transactions = [payment | {"transaction_id": it, **more} for it in ids]
    addition = Addition(account, {"transactions": transactions})
    add_transactions_to_accounts(
        session, [addition], check_previously_added=True, force_add_to_current_statement=False
    )


def test_added_transactions_are_counted_from_zero_and_those_of_the_payload_do_not_count(
    session: Session, opened: OpenAccount
) -> None:
    _add(session, opened, "from the payload")
    session.execute(update(Transaction).values(period=TransactionPeriod.OPEN))
    _add(session, opened, "one", "two")
    _add(session, opened, "three")
    added = select(Transaction.transaction_id, Transaction.position).order_by(Transaction.id).offset(1)
    assert [tuple(row) for row in session.execute(added)] == [("one", 0), ("two", 1), ("three", 2)]


def test_each_account_has_its_own_ledgers_in_their_order(
    session: Session, another: ImportedAccount, known: KnownSupplier, opened: OpenAccount
) -> None:
    with_two = find_accounts(session, known, [another.number])[another.number]
    second = {"account_pk": opened.id, "position": 1, "ledger_code": "SECOND", "ledger_balance": 10}
    session.execute(insert(Ledger).values(second))
    first = update(Ledger).where(Ledger.account_pk == opened.id, Ledger.position == 0)
    session.execute(first.values(ledger_code="FIRST"))  # which moves it behind the second
    rows = session.execute(select(Ledger.id, Ledger.ledger_code)).all()
    codes = {row.id: row.ledger_code for row in rows}
    ledgers = read_ledgers(session, [with_two.id, opened.id], TODAY)
    chosen = {
        (it, supply_type): codes[ledgers[it].choose({"supply_type": supply_type})]
        for it in (opened.id, with_two.id)
        for supply_type in ("GAS", "WATER")
    }
    assert chosen == {
        (opened.id, "GAS"): "FIRST",
        (opened.id, "WATER"): "FIRST",
        (with_two.id, "GAS"): "GAS",
        (with_two.id, "WATER"): "ELECTRICITY",
    }
    _add(session, with_two, "T1", supply_type="GAS")
    balances = select(Ledger.ledger_code, Ledger.ledger_balance)
    assert {row.ledger_code: row.ledger_balance for row in session.execute(balances)} == {
        "FIRST": 10,
        "SECOND": 10,
        "ELECTRICITY": 10,
        "GAS": 11,
    }
