"""What becomes of the lines of a chunk of added data: added, refused, or left for later."""

from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service import models
from migration_service.services.accounts import added_data
from migration_service.services.accounts import notes as notes_service
from migration_service.services.batches.work.added_data import lines as added_lines
from migration_service.services.batches.work.added_data.deferral import find_deferred
from migration_service.services.batches.work.lines import find_other_kind
from migration_service.states import BatchKind
from support.factories import Customer
from unit.services.batches import batch_rows
from unit.services.undo.undo_rows import add_account

_NOT_FOUND = ("FAILED", [("account_not_found", "external_account_number")])
_ADDED: tuple[str, list[Any]] = ("ADDED", [])
_DEFERRED: tuple[str, list[Any]] = ("DEFERRED", [])
_PENDING: tuple[str, list[Any]] = ("PENDING", [])


def _note(customer: Customer, number: str, *bodies: str, **more: Any) -> dict[str, Any]:
    return batch_rows.line_of(customer, number, notes=[{"body": body} for body in bodies], **more)


def _bodies(session: Session) -> list[str | None]:
    return list(session.scalars(select(models.Note.body).order_by(models.Note.id)))


def test_lines_that_the_database_refuses_fail_on_their_own(session: Session, customer: Customer) -> None:
    write = notes_service._row

    def refuse(*args: Any) -> dict[str, Any]:
        row = write(*args)
        return row | {"is_pinned": None} if row["body"] == "refused" else row

    for number in "ab":
        add_account(session, customer, number)
    lines = [_note(customer, it, body) for it in "ab" for body in ("x", "refused", "y")]
    key = batch_rows.make_chunk(session, customer, lines, kind="notes")
    with patch.object(notes_service, "_row", refuse):
        assert batch_rows.work(session, key, 6) == 0
    failed = ("FAILED", [("line_failed_unexpectedly", None)])
    assert batch_rows.codes_of(session, key) == [_ADDED, failed, _ADDED] * 2
    assert (batch_rows.lines_of(session, key)[1].errors or [])[0]["detail"] == (
        "The database refused a value of the line."
    )
    assert _bodies(session) == ["x", "y"] * 2


def test_a_failure_that_is_about_no_line_is_raised(session: Session, customer: Customer) -> None:
    add_account(session, customer, "a")
    key = batch_rows.make_chunk(session, customer, [_note(customer, "a", "x")], kind="notes")

    def fail(*_args: Any) -> None:
        session.execute(text("SELECT 1 FROM no_such_table"))

    with patch.object(notes_service, "_row", fail), pytest.raises(DBAPIError):
        batch_rows.work(session, key, 1)
    with patch.object(added_data, "open_accounts", fail), pytest.raises(DBAPIError):
        batch_rows.work(session, key, 1)


def test_lines_of_an_account_that_somebody_else_holds_wait_and_the_others_are_added(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        for number in "ab":
            add_account(session, customer, number)
        lines = [_note(customer, it, it) for it in "aba"]
        key = batch_rows.make_chunk(session, customer, lines, kind="notes")
    held = select(models.Account.id).where(models.Account.external_account_number == "a")
    with sessions() as another, sessions() as session:
        another.execute(held.with_for_update())
        session.execute(text("SET LOCAL lock_timeout = '20ms'"))
        assert batch_rows.work(session, key, 3) == 0
        assert batch_rows.codes_of(session, key) == [_DEFERRED, _ADDED, _DEFERRED]
        assert batch_rows.lines_of(session, key)[0].warnings == [
            {
                "code": "account_busy",
                "detail": "The account is being changed by another operation. The line is processed later.",
                "attr": "external_account_number",
            }
        ]
        assert _bodies(session) == ["b"]


def test_lines_wait_for_an_account_that_is_being_created_but_not_for_ever(
    session: Session, customer: Customer
) -> None:
    for number in "ab":
        session.delete(add_account(session, customer, number, state="PENDING"))
    lines = [_note(customer, it, it) for it in "aba"]
    key = batch_rows.make_chunk(session, customer, lines, kind="notes")
    process = update(models.AccountImportProcess).where(
        models.AccountImportProcess.external_account_number == "a"
    )
    session.execute(process.values(state="IN_PROGRESS", attempt_id=text("gen_random_uuid()")))
    assert batch_rows.work(session, key, 2) == 1
    assert batch_rows.codes_of(session, key) == [_DEFERRED, _NOT_FOUND, _PENDING]
    assert batch_rows.warnings_of(session, key)[0] == [("account_import_in_progress", None)]
    assert batch_rows.work(session, key, 1) == 0
    assert batch_rows.codes_of(session, key) == [_DEFERRED, _NOT_FOUND, _DEFERRED]
    chunk = batch_rows.chunk_of(session, key)
    chunk.deferred_since = func.now() - batch_rows.seconds(20)
    session.flush()
    session.refresh(chunk)
    assert batch_rows.work(session, key, 2, longest_deferral=30.0) == 0
    assert batch_rows.codes_of(session, key) == [_DEFERRED, _NOT_FOUND, _DEFERRED]
    assert batch_rows.work(session, key, 2, longest_deferral=10.0) == 0
    assert batch_rows.codes_of(session, key) == [_NOT_FOUND] * 3
    assert batch_rows.chunk_of(session, key).counts == {"FAILED": 3}


def test_later_lines_wait_behind_deferred_ones_even_if_their_account_has_just_been_created(
    session: Session, customer: Customer
) -> None:
    account = add_account(session, customer, "a")
    account.external_account_number = "not yet"
    being_created = {"state": "IN_PROGRESS", "attempt_id": text("gen_random_uuid()")}
    session.execute(update(models.AccountImportProcess).values(being_created))
    lines = [_note(customer, "a", it) for it in ("first", "second")]
    key = batch_rows.make_chunk(session, customer, lines, kind="notes")
    assert batch_rows.work(session, key, 1) == 1

    def find_after_creation(*args: Any) -> set[str]:
        account.external_account_number = "a"
        session.flush()
        return find_deferred(*args)

    with patch.object(added_lines, "find_deferred", find_after_creation):
        assert batch_rows.work(session, key, 1) == 0
    assert batch_rows.codes_of(session, key) == [_DEFERRED, _DEFERRED]
    assert batch_rows.warnings_of(session, key) == [[("account_import_in_progress", None)]] * 2
    assert batch_rows.work(session, key, 2) == 0
    assert batch_rows.codes_of(session, key) == [_ADDED, _ADDED]
    assert _bodies(session) == ["first", "second"]


_PAYLOADS: dict[BatchKind, dict[str, Any]] = {
    BatchKind.ACCOUNTS: {"billing_address1": "Singel 1", "ledgers": [], "statements": []},
    BatchKind.NOTES: {"notes": []},
    BatchKind.TRANSACTIONS: {"transactions": []},
    BatchKind.STATEMENTS: {"statements": []},
    BatchKind.PAYMENT_INSTRUCTIONS: {"vendor": "V", "reference": "R", "type": "CARD"},
}
#: The member of each that the error names.
_FIRST_MARKS = {
    BatchKind.ACCOUNTS: "billing_address1",
    BatchKind.NOTES: "notes",
    BatchKind.TRANSACTIONS: "transactions",
    BatchKind.STATEMENTS: "statements",
    BatchKind.PAYMENT_INSTRUCTIONS: "vendor",
}
_PAIR = {"import_supplier": "S", "external_account_number": "1"}


@pytest.mark.parametrize("kind", BatchKind)
@pytest.mark.parametrize("other", BatchKind)
def test_a_line_of_another_kind_is_told_apart_from_those_of_its_own(
    kind: BatchKind, other: BatchKind
) -> None:
    error = find_other_kind(_PAIR | _PAYLOADS[other], kind)
    if other is kind:
        assert error is None
    else:
        assert error is not None
        assert error.code == "line_kind_mismatch"
        assert error.detail.endswith(f" is of kind {other}, but the batch is of kind {kind}.")
        assert [item.attr for item in error.errors] == [_FIRST_MARKS[other]]


def test_a_line_with_members_of_its_own_kind_and_of_another_is_of_its_own() -> None:
    assert find_other_kind({"notes": [], "transactions": []}, BatchKind.TRANSACTIONS) is None
    assert find_other_kind({"notes": [], "statements": []}, BatchKind.STATEMENTS) is None


@pytest.mark.parametrize("payload", [None, [], "notes", 7, {}, _PAIR, {"unknown": 1}])
def test_a_line_without_any_mark_is_of_no_other_kind(payload: Any) -> None:
    assert find_other_kind(payload, BatchKind.NOTES) is None
