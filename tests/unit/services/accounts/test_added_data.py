"""What is added to accounts: how they are found and locked, what exists already, and what is refused."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Account, Ledger
from migration_service.services.access.callers import Caller
from migration_service.services.accounts import added_data
from migration_service.services.accounts.ledgers import open_period, read_ledgers
from migration_service.services.accounts.notes import add_notes_to_accounts, read_notes
from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.accounts.transactions import add_transactions_to_accounts
from migration_service.services.setup.suppliers import KnownSupplier
from support.imported_account import ImportedAccount

FreeLocks = Callable[[added_data.OpenAccount], list[str]]


def test_an_account_is_locked_for_other_additions_but_not_for_rows_that_refer_to_it(
    session: Session, account: ImportedAccount, known: KnownSupplier, free_locks: FreeLocks
) -> None:
    caller, body = Caller(known.organisation_id, 1), added_data.PostedBody(dict(account.pair))
    opened = added_data.open_account(session, caller, body, lock=False)
    assert free_locks(opened) == ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]
    assert added_data.open_account(session, caller, body) == opened
    assert free_locks(opened) == ["KEY SHARE"]


def test_accounts_that_somebody_else_has_locked_are_waited_for_or_left_out(
    sessions: sessionmaker[Session],
    session: Session,
    account: ImportedAccount,
    known: KnownSupplier,
    free_locks: FreeLocks,
) -> None:
    opened = added_data.find_accounts(session, known, [account.number])[account.number]
    assert added_data.open_accounts(session, known, [account.number]) == {account.number: opened}
    assert free_locks(opened) == ["KEY SHARE"]
    with sessions() as other:
        other.execute(text("SET LOCAL lock_timeout = '10ms'"))
        assert added_data.open_accounts(other, known, [account.number], skip_locked=True) == {}
        with pytest.raises(OperationalError):
            added_data.open_accounts(other, known, [account.number])


def test_accounts_are_locked_in_the_same_order_by_everybody(
    session: Session, account: ImportedAccount, known: KnownSupplier, another: ImportedAccount
) -> None:
    moved = update(Account).where(Account.external_account_number == account.number)
    session.execute(moved.values(billing_address2="behind the other one"))
    numbers = [another.number, account.number]
    assert list(added_data.open_accounts(session, known, numbers)) == [account.number, another.number]


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


def test_each_account_has_its_own_ledgers_in_their_order(
    session: Session, another: ImportedAccount, known: KnownSupplier, opened: added_data.OpenAccount
) -> None:
    with_two = added_data.find_accounts(session, known, [another.number])[another.number]
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
    payment = {"transaction_id": "T1", "transaction_date": datetime.now(UTC).date(), "amount": 1}
    payment |= {"type": "PAYMENT", "supply_type": "GAS"}
    addition = added_data.Addition(with_two, {"transactions": [payment]})
    add_transactions_to_accounts(
        session, [addition], check_previously_added=True, force_add_to_current_statement=False
    )
    balances = select(Ledger.ledger_code, Ledger.ledger_balance)
    assert {row.ledger_code: row.ledger_balance for row in session.execute(balances)} == {
        "FIRST": 10,
        "SECOND": 10,
        "ELECTRICITY": 10,
        "GAS": 11,
    }


def test_a_note_is_read_as_it_was_sent_and_is_pinned_until_its_time(
    session: Session, opened: added_data.OpenAccount
) -> None:
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    pinned = {"body": "pinned", "created_at": moment, "is_pinned": True, "unpin_at": tomorrow}
    over = {"body": "over", "created_at": moment, "is_pinned": True, "unpin_at": moment}
    plain = {"body": "plain", "created_at": moment - timedelta(days=1)}
    for_ever = {"body": "for ever", "created_at": moment, "is_pinned": True}
    add_notes_to_accounts(session, [(opened, [over, plain, pinned, for_ever])])
    read = {"documents": [], "is_pinned": False, "unpin_at": None}
    unpinned = [read | plain, read | over | {"is_pinned": False}]
    assert read_notes(session, opened.id) == [read | pinned, read | for_ever, *unpinned]


def test_an_account_is_found_by_its_pair_and_has_its_ledgers_in_their_order(
    session: Session, another: ImportedAccount, known: KnownSupplier
) -> None:
    assert find_account(session, known.id + 1, another.number) is None
    assert find_account(session, known.id, "another number") is None
    found = find_account(session, known.id, another.number)
    assert found is not None
    last = update(Ledger).where(Ledger.ledger_code == "GAS")
    session.execute(last.values(position=-1))  # before the other one, whose row and code come before it
    data = read_account(session, found)
    assert [it["ledger_code"] for it in data["ledgers"]] == ["GAS", "ELECTRICITY"]
    assert not {"added_notes", "added_payment_instructions"} & data.keys()
