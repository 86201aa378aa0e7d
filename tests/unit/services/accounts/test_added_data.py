"""What is added to accounts: how they are found and locked, what exists already, and what is refused."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.profile import Profile
from migration_payloads.rules.rule import Finding, Severity
from migration_service import errors
from migration_service.models import Account, Ledger, Statement, Transaction
from migration_service.schemas.added_data import NotesRequestSchema
from migration_service.services.access.callers import Caller
from migration_service.services.accounts.added_data import (
    Addition,
    Checked,
    OpenAccount,
    PostedBody,
    check_body,
    find_accounts,
    load_posted,
    open_account,
    open_accounts,
)
from migration_service.services.accounts.ledgers import open_period, read_ledgers
from migration_service.services.accounts.notes import add_notes_to_accounts, read_notes
from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.accounts.statements import AddedStatements, add_statements_to_accounts
from migration_service.services.accounts.transaction_checks import (
    check_transactions,
    first_error,
    open_checked_account,
)
from migration_service.services.accounts.transactions import Taken, add_transactions_to_accounts
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier
from migration_service.states import TransactionPeriod
from support.factories import make_customer
from support.imported_account import ImportedAccount

FreeLocks = Callable[[OpenAccount], list[str]]


def test_the_form_of_a_body_is_checked_and_unknown_fields_within_it_are_kept_apart() -> None:
    note = {"body": "x", "colour": "red"}
    body = {"import_supplier": "S", "external_account_number": "1", "notes": [note], "size": 2}
    posted = load_posted(NotesRequestSchema(), body)
    assert [(it.attr, it.code) for it in posted.errors] == [("size", "unknown_field")]
    assert [(it.attr, it.code) for it in posted.unknown_fields] == [("notes.0.colour", "unknown_field")]
    assert not posted.dry_run
    assert load_posted(NotesRequestSchema(), body | {"dry_run": True}).dry_run


def test_an_account_is_locked_for_other_additions_but_not_for_rows_that_refer_to_it(
    session: Session, account: ImportedAccount, known: KnownSupplier, free_locks: FreeLocks
) -> None:
    caller, body = Caller(known.organisation_id, 1), PostedBody(dict(account.pair))
    opened = open_account(session, caller, body, lock=False)
    assert free_locks(opened) == ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]
    assert open_account(session, caller, body) == opened
    assert free_locks(opened) == ["KEY SHARE"]


def test_accounts_that_somebody_else_has_locked_are_waited_for_or_left_out(
    sessions: sessionmaker[Session],
    session: Session,
    account: ImportedAccount,
    known: KnownSupplier,
    free_locks: FreeLocks,
) -> None:
    opened = find_accounts(session, known, [account.number])[account.number]
    assert open_accounts(session, known, [account.number]) == {account.number: opened}
    assert free_locks(opened) == ["KEY SHARE"]
    with sessions() as other:
        other.execute(text("SET LOCAL lock_timeout = '10ms'"))
        assert open_accounts(other, known, [account.number], skip_locked=True) == {}
        with pytest.raises(OperationalError):
            open_accounts(other, known, [account.number])


def test_accounts_are_locked_in_the_same_order_by_everybody(
    session: Session, account: ImportedAccount, known: KnownSupplier, another: ImportedAccount
) -> None:
    moved = update(Account).where(Account.external_account_number == account.number)
    session.execute(moved.values(billing_address2="behind the other one"))
    numbers = [another.number, account.number]
    assert list(open_accounts(session, known, numbers)) == [account.number, another.number]


def test_an_account_is_that_of_the_supplier_and_of_the_number(
    sessions: sessionmaker[Session], session: Session, account: ImportedAccount, known: KnownSupplier
) -> None:
    other = get_import_supplier(session, make_customer(sessions).import_supplier, organisation_id=None)
    for supplier, number in ((other, account.number), (known, "another number")):
        assert open_accounts(session, supplier, [number]) == {}
        assert find_accounts(session, supplier, [number]) == {}
        body = PostedBody({"import_supplier": supplier.code, "external_account_number": number})
        with pytest.raises(errors.AccountNotFoundInBodyError):
            open_account(session, Caller(supplier.organisation_id, 1), body)


def test_nothing_is_added_to_an_account_that_was_erased(
    session: Session, account: ImportedAccount, known: KnownSupplier, opened: OpenAccount
) -> None:
    session.execute(update(Account).where(Account.id == opened.id).values(erased_at=func.now()))
    with pytest.raises(errors.AccountErasedError):
        open_account(session, Caller(known.organisation_id, 1), PostedBody(dict(account.pair)))
    assert isinstance(
        open_accounts(session, known, [account.number])[account.number], errors.AccountErasedError
    )
    assert find_accounts(session, known, [account.number]) == {}


def test_warnings_and_unknown_fields_are_errors_under_the_strict_profile_only() -> None:
    wrong = Finding(("notes", 0), "wrong", "It is wrong.", Severity.ERROR)
    doubtful = Finding(("notes", 1), "doubtful", "It is doubtful.", Severity.WARNING)
    unknown = errors.ErrorItem("unknown_field", "No such field.", "colour")
    findings = [doubtful, wrong]
    form = errors.ErrorItem("required", "This field is required.", "notes.0.body")
    body = PostedBody({}, [unknown], errors=[form])
    items = [doubtful.error_item(), wrong.error_item()]
    assert check_body(body, findings, Profile.STRICT) == Checked([form, *items, unknown])
    assert check_body(body, findings, Profile.LENIENT) == Checked([form, items[1]], [items[0], unknown])


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


def test_a_note_is_read_as_it_was_sent_and_is_pinned_until_its_time(
    session: Session, opened: OpenAccount
) -> None:
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    pinned = {"body": "pinned", "created_at": moment, "is_pinned": True, "unpin_at": tomorrow}
    over = {"body": "over", "created_at": moment, "is_pinned": True, "unpin_at": moment}
    plain = {"body": "plain", "created_at": moment - timedelta(days=1)}
    for_ever = {"body": "for ever", "created_at": moment, "is_pinned": True}
    add_notes_to_accounts(session, [Addition(opened, {"notes": [over, plain, pinned, for_ever]})])
    read = {"documents": [], "is_pinned": False, "unpin_at": None}
    unpinned = [read | plain, read | over | {"is_pinned": False}]
    assert read_notes(session, opened.id) == [read | pinned, read | for_ever, *unpinned]


def _statement(statement_id: str) -> dict[str, Any]:
    return {
        "statement_id": statement_id,
        "number": f"N-{statement_id}",
        "bill_period_from_date": date(2026, 8, 1),
        "bill_period_to_date": date(2026, 8, 31),
        "issued_date": date(2026, 9, 1),
        "gross_amount": 4_928,
    }


def test_statements_are_counted_from_zero_on_each_account(
    session: Session, another: ImportedAccount, known: KnownSupplier, opened: OpenAccount
) -> None:
    other = find_accounts(session, known, [another.number])[another.number]
    for account, *ids in ((opened, "A", "B"), (opened, "A", "C"), (other, "A")):
        addition = Addition(account, {"statements": [_statement(it) for it in ids]})
        (result,) = add_statements_to_accounts(session, [addition])
        assert isinstance(result, AddedStatements)
        assert result.is_new == ([False, True] if "C" in ids else [True] * len(ids))
    added = select(Statement.account_pk, Statement.statement_id, Statement.position).order_by(Statement.id)
    assert [tuple(row) for row in session.execute(added)] == [
        (opened.id, "A", 0),
        (opened.id, "B", 1),
        (opened.id, "C", 2),
        (other.id, "A", 0),
    ]


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


def test_the_error_is_that_of_the_first_transaction_at_fault_and_lists_all_of_them() -> None:
    used = errors.ErrorItem("transaction_id_already_used", "T-10 is used.", "transactions.10.transaction_id")
    whole = errors.ErrorItem("not_a_dict", "Expected an object.", "transactions.9")
    supplier = errors.ErrorItem("required", "This field is required.", "import_supplier")
    early = errors.ErrorItem("invalid", "No.", "transactions.8.amount")
    of_form = [(errors.RequestFailedValidationError, it) for it in (whole, early)]
    error = first_error([(errors.TransactionIdAlreadyUsedError, used), *of_form])
    assert (type(error), error.errors) == (errors.RequestFailedValidationError, [early, whole, used])
    assert error.detail == errors.RequestFailedValidationError.default_detail
    of_none = [
        supplier,
        errors.ErrorItem("not_a_list", "Expected a list.", "transactions"),
        errors.ErrorItem("invalid", "No."),
    ]
    faults = [(errors.RequestFailedValidationError, it) for it in of_none]
    assert first_error([(errors.TransactionIdAlreadyUsedError, used), *faults]).errors == [*of_none, used]
    error = first_error([(errors.TransactionIdAlreadyUsedError, used)])
    assert (type(error), error.detail) == (errors.TransactionIdAlreadyUsedError, used.detail)


def test_an_account_that_does_not_exist_is_named_beside_the_errors_of_the_form(
    session: Session, known: KnownSupplier
) -> None:
    missing = errors.ErrorItem("required", "This field is required.", "transactions")
    body = PostedBody({"import_supplier": known.code, "external_account_number": "nobody"}, errors=[missing])
    with pytest.raises(errors.RequestFailedValidationError) as caught:
        open_checked_account(session, Caller(known.organisation_id, 1), body)
    assert [it.code for it in caught.value.errors] == ["required", "account_not_found"]


def test_a_transaction_id_that_is_used_is_refused_with_the_reason(
    session: Session, opened: OpenAccount
) -> None:
    payment = {"transaction_id": "T", "transaction_date": date(2026, 1, 1), "amount": 1, "type": "PAYMENT"}

    def add(amount: int) -> list[Taken] | errors.InvalidError:
        addition = Addition(opened, {"transactions": [payment | {"amount": amount}]})
        (result,) = add_transactions_to_accounts(
            session, [addition], check_previously_added=False, force_add_to_current_statement=True
        )
        return result

    assert isinstance(add(1), list)
    for amount, what in ((1, "the same transaction"), (2, "a transaction of another amount or type")):
        error = add(amount)
        assert isinstance(error, errors.TransactionIdAlreadyUsedError)
        assert error.detail == f"The transaction_id is already used by {what} of the account."


def test_rules_are_checked_for_each_transaction() -> None:
    item = {"start_date": date(2026, 2, 2), "end_date": date(2026, 2, 1), "net_amount": 1}
    charge = {"transaction_id": "T", "type": "SUPPLY_CHARGE", "amount": 1, "line_items": [item]}
    checked = check_transactions(PostedBody({"transactions": [{}, charge]}), Profile.STRICT, date(2026, 3, 1))
    assert checked.errors
    assert {(it.attr or "").rpartition("transactions.")[2][0] for it in checked.errors} == {"1"}
