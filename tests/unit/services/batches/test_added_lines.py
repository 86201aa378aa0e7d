"""What becomes of the lines of a chunk of added data: added, refused, or left for later."""

from datetime import datetime
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from factories import Customer
from migration_service.errors import PaymentInstructionRejectedError, PaymentVendorUnavailableError
from migration_service.models import (
    Account,
    AccountImportProcess,
    Note,
    PaymentInstruction,
    PaymentVendor,
    Transaction,
)
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, VendorKind
from migration_service.services.accounts import notes as notes_service
from migration_service.services.accounts.payment_instructions import find_instruction
from migration_service.services.batches.added_data import lines as added_lines
from migration_service.services.batches.added_data.deferral import find_deferred
from migration_service.services.batches.added_data.instructions import Answer, Confirmed, InstructionKey
from migration_service.services.batches.chunks import read_wanted_instructions
from migration_service.services.setup.vendors import create_payment_vendor
from unit.services.batches.batch_rows import (
    chunk_of,
    codes_of,
    lines_of,
    make_chunk,
    payload_of,
    seconds,
    work,
)
from unit.services.undo.undo_rows import add_account

_NOT_FOUND = ("FAILED", [("account_not_found", "external_account_number")])
_ADDED: tuple[str, list[Any]] = ("ADDED", [])
_DEFERRED: tuple[str, list[Any]] = ("DEFERRED", [])
_PENDING: tuple[str, list[Any]] = ("PENDING", [])


def _line(customer: Customer, number: str, **members: Any) -> dict[str, Any]:
    return {"import_supplier": customer.import_supplier, "external_account_number": number, **members}


def _note(customer: Customer, number: str, *bodies: str, **more: Any) -> dict[str, Any]:
    return _line(customer, number, notes=[{"body": body} for body in bodies], **more)


def _bodies(session: Session) -> list[str | None]:
    return list(session.scalars(select(Note.body).order_by(Note.id)))


def _warnings(session: Session, key: Any) -> list[list[tuple[str, str | None]]]:
    return [[(it["code"], it["attr"]) for it in line.warnings or ()] for line in lines_of(session, key)]


def test_what_can_be_added_is_added_and_the_others_say_what_is_wrong(
    session: Session, customer: Customer
) -> None:
    account = add_account(session, customer, "a")
    erased = add_account(session, customer, "erased")
    erased.erased_at = datetime.fromisoformat("2026-03-02T12:00:00Z")
    foreign = {"import_supplier": "ELSEWHERE", "dry_run": True}
    lines: list[Any] = [
        _note(customer, "a", "one"),
        _note(customer, "a", "one", "two"),
        _note(customer, "a", "two"),
        _note(customer, "nobody", "x"),
        _note(customer, "erased", "x"),
        _note(customer, "a", "x") | foreign,
        _note(customer, "nobody"),
        _note(customer, "a", "x", extra=1),
        b'{"notes": [{"body": "x"}], "import_supplier": 5}',
        b"{",
        payload_of(customer, "a"),
        _line(customer, "a", notes=[{"body": "pin", "unpin_at": "2027-01-01T00:00:00Z"}]),
    ]
    key = make_chunk(session, customer, lines, kind="notes")
    assert work(session, key, len(lines)) == 0
    assert codes_of(session, key) == [
        _ADDED,
        _ADDED,
        ("ALREADY_ADDED", []),
        _NOT_FOUND,
        ("FAILED", [("account_erased", None)]),
        ("FAILED", [("import_supplier_mismatch", "import_supplier"), ("dry_run_in_line", "dry_run")]),
        ("FAILED", [("empty", "notes")]),
        ("FAILED", [("unknown_field", "extra")]),
        ("FAILED", [("invalid", "import_supplier"), ("required", "external_account_number")]),
        ("FAILED", [("parse_error", None)]),
        ("FAILED", [("line_kind_mismatch", "billing_address1")]),
        _ADDED,
    ]
    assert _bodies(session) == ["one", "two", "pin"]
    found = lines_of(session, key)
    number = account.service_account_number
    assert [it.service_account_number for it in found] == [number] * 3 + [None] * 8 + [number]
    assert [it.external_account_number for it in found] == [
        *["a"] * 3,
        *("nobody", "erased", "a", "nobody", "a"),
        *[None] * 2,
        *["a"] * 2,
    ]
    already = {"code": "already_added", "detail": "This was on the account already.", "attr": "notes.0"}
    assert [it.warnings for it in found[:11]] == [None, [already], *[None] * 9]
    assert _warnings(session, key)[11] == [("unpin_without_pin", "notes.0.unpin_at")]
    assert (found[3].errors or [])[0]["detail"] == (
        "No imported account exists for this import supplier and external account number."
    )
    assert (found[5].errors or [])[0]["detail"] == (
        f"The account names import supplier 'ELSEWHERE', but the batch is for '{customer.import_supplier}'."
    )


@pytest.mark.parametrize(("mode", "good"), [("validate", "VALID"), ("dry-run", "WOULD_ADD")])
def test_nothing_is_added_if_that_is_not_asked_for(
    session: Session, customer: Customer, mode: str, good: str
) -> None:
    add_account(session, customer, "a")
    lines = [_note(customer, "a", "x"), _note(customer, "nobody", "x"), _note(customer, "a")]
    key = make_chunk(session, customer, lines, kind="notes", mode=mode)
    assert work(session, key, 3) == 0
    nobody = (good, []) if mode == "validate" else _NOT_FOUND
    assert codes_of(session, key) == [(good, []), nobody, ("FAILED", [("empty", "notes")])]
    assert _bodies(session) == []


_TRANSACTION = {
    "transaction_date": "2026-01-10",
    "type": "PAYMENT",
    "reference": "",
    "payment_type": "DIRECT_CREDIT",
}
_STATEMENT = {
    "bill_period_from_date": "2025-08-01",
    "bill_period_to_date": "2025-08-31",
    "issued_date": "2025-09-01",
    "number": "N",
    "gross_amount": 1,
}


@pytest.mark.parametrize(
    ("kind", "sound", "faulty", "error", "warning"),
    [
        (
            "notes",
            {"notes": [{"body": "x", "colour": "red"}]},
            {"notes": [{"body": 5, "colour": "red"}]},
            ("invalid", "notes.0.body"),
            "notes.0.colour",
        ),
        (
            "statements",
            {"statements": [_STATEMENT | {"statement_id": "S", "colour": "red"}]},
            {"statements": [_STATEMENT | {"colour": "red"}]},
            ("required", "statements.0.statement_id"),
            "statements.0.colour",
        ),
        (
            "transactions",
            {"transactions": [_TRANSACTION | {"transaction_id": "T", "amount": 1, "colour": "red"}]},
            {"transactions": [_TRANSACTION | {"transaction_id": "T", "amount": "much", "colour": "red"}]},
            ("invalid", "transactions.0.amount"),
            "transactions.0.colour",
        ),
        (
            "payment-instructions",
            {"vendor": "V", "reference": "r", "type": "CARD"},
            {"vendor": "V", "reference": "r", "type": 5},
            ("invalid", "type"),
            None,
        ),
    ],
)
@pytest.mark.parametrize("profile", ["lenient", "strict"])
def test_each_kind_has_the_schema_and_the_profile_of_its_endpoint(
    session: Session,
    customer: Customer,
    *,
    kind: str,
    profile: str,
    sound: dict[str, Any],
    faulty: dict[str, Any],
    error: tuple[str, str],
    warning: str | None,
) -> None:
    lines = [_line(customer, "a", **sound), _line(customer, "a", **faulty)]
    key = make_chunk(session, customer, lines, kind=kind, mode="validate", profile=profile)
    assert work(session, key, 2) == 0
    unknown = [("unknown_field", warning)] if warning else []
    if profile == "strict":
        assert codes_of(session, key) == [
            ("FAILED", unknown) if warning else ("VALID", []),
            ("FAILED", [error, *unknown]),
        ]
        assert _warnings(session, key) == [[], []]
    else:
        assert codes_of(session, key) == [("VALID", []), ("FAILED", [error])]
        assert _warnings(session, key)[0] == unknown


def test_faulty_transactions_say_everything_that_is_wrong_with_them(
    session: Session, customer: Customer
) -> None:
    work(session, make_chunk(session, customer, [payload_of(customer, "a")]), 1)

    def line(*amounts: tuple[str, Any], number: str = "a") -> dict[str, Any]:
        transactions = [_TRANSACTION | {"transaction_id": id_, "amount": it} for id_, it in amounts]
        return _line(customer, number, transactions=transactions)

    lines = [
        line(("T", "1.00")),
        line(("T", "2.00"), ("U", "much")),
        line(("T", "1.00"), ("V", "3.00")),
        line(("W", "much"), number="nobody"),
    ]
    key = make_chunk(session, customer, lines, kind="transactions")
    assert work(session, key, 4) == 0
    assert codes_of(session, key) == [
        _ADDED,
        (
            "FAILED",
            [
                ("transaction_id_already_used", "transactions.0.transaction_id"),
                ("invalid", "transactions.1.amount"),
            ],
        ),
        _ADDED,
        ("FAILED", [("invalid", "transactions.0.amount")]),
    ]
    assert _warnings(session, key) == [[], [], [("already_added", "transactions.0")], []]
    added = select(Transaction.transaction_id).where(Transaction.period == "ADDED").order_by(Transaction.id)
    assert session.scalars(added).all() == ["T", "V"]


def test_lines_that_there_is_no_time_for_stay_as_they_are(session: Session, customer: Customer) -> None:
    key = make_chunk(session, customer, [b"{"] * 3, kind="notes")
    with patch.object(added_lines, "PIECE_SECONDS", -1.0):
        assert work(session, key, 3) == 2
        assert work(session, key, 3) == 1
    assert codes_of(session, key) == [*[("FAILED", [("parse_error", None)])] * 2, _PENDING]


def test_lines_that_the_database_refuses_fail_on_their_own(session: Session, customer: Customer) -> None:
    write = notes_service._row

    def refuse(*args: Any) -> dict[str, Any]:
        row = write(*args)
        return row | {"is_pinned": None} if row["body"] == "refused" else row

    for number in "ab":
        add_account(session, customer, number)
    lines = [_note(customer, it, body) for it in "ab" for body in ("x", "refused", "y")]
    key = make_chunk(session, customer, lines, kind="notes")
    with patch.object(notes_service, "_row", refuse):
        assert work(session, key, 6) == 0
    failed = ("FAILED", [("line_failed_unexpectedly", None)])
    assert codes_of(session, key) == [_ADDED, failed, _ADDED] * 2
    assert (lines_of(session, key)[1].errors or [])[0]["detail"] == (
        "The database refused a value of the line."
    )
    assert _bodies(session) == ["x", "y"] * 2


def test_a_failure_that_is_about_no_line_is_raised(session: Session, customer: Customer) -> None:
    add_account(session, customer, "a")
    key = make_chunk(session, customer, [_note(customer, "a", "x")], kind="notes")

    def fail(*_args: Any) -> None:
        session.execute(text("SELECT 1 FROM no_such_table"))

    with patch.object(notes_service, "_row", fail), pytest.raises(DBAPIError):
        work(session, key, 1)
    with patch.object(added_lines, "open_accounts", fail), pytest.raises(DBAPIError):
        work(session, key, 1)


def test_lines_of_an_account_that_somebody_else_holds_wait_and_the_others_are_added(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        for number in "ab":
            add_account(session, customer, number)
        lines = [_note(customer, it, it) for it in "aba"]
        key = make_chunk(session, customer, lines, kind="notes")
    held = select(Account.id).where(Account.external_account_number == "a")
    with sessions() as another, sessions() as session:
        another.execute(held.with_for_update())
        session.execute(text("SET LOCAL lock_timeout = '20ms'"))
        assert work(session, key, 3) == 0
        assert codes_of(session, key) == [_DEFERRED, _ADDED, _DEFERRED]
        assert lines_of(session, key)[0].warnings == [
            {
                "code": "account_busy",
                "detail": "The account is being changed at this moment. The line is worked on later.",
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
    key = make_chunk(session, customer, lines, kind="notes")
    process = update(AccountImportProcess).where(AccountImportProcess.external_account_number == "a")
    session.execute(process.values(state="IN_PROGRESS", attempt_id=text("gen_random_uuid()")))
    assert work(session, key, 2) == 1
    assert codes_of(session, key) == [_DEFERRED, _NOT_FOUND, _PENDING]
    assert _warnings(session, key)[0] == [("account_import_in_progress", None)]
    assert work(session, key, 1) == 0
    assert codes_of(session, key) == [_DEFERRED, _NOT_FOUND, _DEFERRED]
    chunk = chunk_of(session, key)
    chunk.deferred_since = func.now() - seconds(20)
    session.flush()
    session.refresh(chunk)
    assert work(session, key, 2, longest_deferral=30.0) == 0
    assert codes_of(session, key) == [_DEFERRED, _NOT_FOUND, _DEFERRED]
    assert work(session, key, 2, longest_deferral=10.0) == 0
    assert codes_of(session, key) == [_NOT_FOUND] * 3
    assert chunk_of(session, key).counts == {"FAILED": 3}


def test_later_lines_wait_behind_deferred_ones_even_if_their_account_has_just_been_created(
    session: Session, customer: Customer
) -> None:
    account = add_account(session, customer, "a")
    account.external_account_number = "not yet"
    being_created = {"state": "IN_PROGRESS", "attempt_id": text("gen_random_uuid()")}
    session.execute(update(AccountImportProcess).values(being_created))
    lines = [_note(customer, "a", it) for it in ("first", "second")]
    key = make_chunk(session, customer, lines, kind="notes")
    assert work(session, key, 1) == 1

    def find_after_creation(*args: Any) -> set[str]:
        account.external_account_number = "a"
        session.flush()
        return find_deferred(*args)

    with patch.object(added_lines, "find_deferred", find_after_creation):
        assert work(session, key, 1) == 0
    assert codes_of(session, key) == [_DEFERRED, _DEFERRED]
    assert _warnings(session, key) == [[("account_import_in_progress", None)]] * 2
    assert work(session, key, 2) == 0
    assert codes_of(session, key) == [_ADDED, _ADDED]
    assert _bodies(session) == ["first", "second"]


@pytest.fixture
def vendor(session: Session) -> PaymentVendor:
    return create_payment_vendor(session, "V", kind=VendorKind.HTTP, url="https://vendor.example/api")


def _order(customer: Customer, number: str, reference: str, vendor: str = "V") -> dict[str, Any]:
    return _line(customer, number, vendor=vendor, reference=reference, type="CARD")


@pytest.mark.usefixtures("vendor")
def test_instructions_have_what_their_vendors_answered(session: Session, customer: Customer) -> None:
    account = add_account(session, customer, "a")
    add_account(session, customer, "b")
    orders = [_order(customer, "a", it) for it in ("new", "known", "refused", "later")]
    orders += [_order(customer, "b", it) for it in ("unasked", "new")]
    orders += [_order(customer, "nobody", "new"), _order(customer, "a", "new") | {"type": 5}]
    key = make_chunk(session, customer, orders, kind="payment-instructions")
    wanted = read_wanted_instructions(session, key, len(orders))
    assert [(it.service_account_number, data["reference"]) for it, data in wanted] == [
        *(("A-a", it) for it in ("new", "known", "refused", "later")),
        *(("A-b", it) for it in ("unasked", "new")),
    ]
    details = PaymentInstructionDetails(reference="r", type="CARD", status="ACTIVE")
    found = [find_instruction(session, *it) for it in wanted]
    answered: list[Answer] = [
        Confirmed(found[0], details),
        Confirmed(found[1], None),
        PaymentInstructionRejectedError(),
        PaymentVendorUnavailableError(),
    ]
    answers = {
        InstructionKey.of(data): answer for (_, data), answer in zip(wanted[:4], answered, strict=True)
    } | {InstructionKey.of(wanted[5][1]): Confirmed(found[5], details)}
    assert work(session, key, len(orders), answers=answers) == 2
    assert codes_of(session, key) == [
        _ADDED,
        ("ALREADY_ADDED", []),
        ("FAILED", [("payment_instruction_rejected", "reference")]),
        _DEFERRED,
        _PENDING,
        _PENDING,  # behind the one that nobody was asked about
        _NOT_FOUND,
        ("FAILED", [("invalid", "type")]),
    ]
    assert _warnings(session, key)[3] == [("payment_vendor_unavailable", None)]
    assert [it.service_account_number for it in lines_of(session, key)] == [
        *["A-a"] * 4,
        *[None] * 4,
    ]
    stored = session.execute(select(PaymentInstruction.account_pk, PaymentInstruction.reference)).all()
    assert [tuple(it) for it in stored] == [(account.id, "new")]
