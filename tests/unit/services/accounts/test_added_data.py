"""Accounts to which something is added: how they are found and locked, and what refuses an addition."""

from collections.abc import Callable

import pytest
from sqlalchemy import func, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.profile import Profile
from migration_payloads.rules.rule import Finding, Severity
from migration_service.errors import AccountErasedError, AccountNotFoundInBodyError, ErrorItem
from migration_service.models import Account
from migration_service.schemas.added_data import NotesRequestSchema
from migration_service.services.access.callers import Caller
from migration_service.services.accounts.added_data import (
    Checked,
    OpenAccount,
    PostedBody,
    check_body,
    find_accounts,
    load_posted,
    open_account,
    open_accounts,
)
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier
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
        with pytest.raises(AccountNotFoundInBodyError):
            open_account(session, Caller(supplier.organisation_id, 1), body)


def test_nothing_is_added_to_an_account_that_was_erased(
    session: Session, account: ImportedAccount, known: KnownSupplier, opened: OpenAccount
) -> None:
    session.execute(update(Account).where(Account.id == opened.id).values(erased_at=func.now()))
    with pytest.raises(AccountErasedError):
        open_account(session, Caller(known.organisation_id, 1), PostedBody(dict(account.pair)))
    assert isinstance(open_accounts(session, known, [account.number])[account.number], AccountErasedError)
    assert find_accounts(session, known, [account.number]) == {}


def test_warnings_and_unknown_fields_are_errors_under_the_strict_profile_only() -> None:
    wrong = Finding(("notes", 0), "wrong", "It is wrong.", Severity.ERROR)
    doubtful = Finding(("notes", 1), "doubtful", "It is doubtful.", Severity.WARNING)
    unknown = ErrorItem("unknown_field", "No such field.", "colour")
    findings = [doubtful, wrong]
    form = ErrorItem("required", "This field is required.", "notes.0.body")
    body = PostedBody({}, [unknown], errors=[form])
    items = [doubtful.error_item(), wrong.error_item()]
    assert check_body(body, findings, Profile.STRICT) == Checked([form, *items, unknown])
    assert check_body(body, findings, Profile.LENIENT) == Checked([form, items[1]], [items[0], unknown])
