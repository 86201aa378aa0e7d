"""What batches of added data sent, compared with what accounts have: each kind, to the last item."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import delete, null, select
from sqlalchemy.orm import Session, sessionmaker

from migration_service import models
from migration_service.db.base import new_id
from migration_service.services.accounts.notes import hash_sameness
from migration_service.services.batches.work.added_data.operations import OPERATIONS
from migration_service.services.reconciliation import added_data
from migration_service.services.reconciliation.differences import AccountDifference, Difference
from migration_service.services.reconciliation.submitted import (
    OpenItem,
    Submitted,
    count_submitted,
    find_open,
)
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchKind, OpenReason
from support.rows import add, add_chunk, compare, make_batch, make_created, make_line

_DAY = date(2026, 1, 1)
_AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Book:
    """What a supplier's batches sent, and what its accounts have."""

    session: Session
    within: sessionmaker[Session]
    known: KnownSupplier

    def batch(self, kind: str, *, chunk: bool = True, **values: Any) -> models.Batch:
        """Insert a batch of added data, with a chunk."""
        batch = make_batch(self.session, self.known, **{"mode": "import", "kind": kind} | values)
        if chunk:
            add_chunk(self.session, batch)
        return batch

    def send(
        self, batch: models.Batch, line: int, number: str, body: Any, *, status: str = "ADDED", chunk: int = 1
    ) -> None:
        operation = OPERATIONS.get(BatchKind(batch.kind), OPERATIONS[BatchKind.NOTES])
        items = body if operation.member in body else {operation.member: [body]}
        understood = operation.understand(items)
        make_line(self.session, batch, line, number, status, understood=understood, chunk_line=chunk)

    def check(self, batch: models.Batch | None, differing: dict[str, Any], equal: dict[str, Any]) -> None:
        """Compare a batch, or all. Account 1 differs, by these sums. What is equal adds to the totals."""
        verdict, found = compare(self.within, self.known, batch.id if batch else None)
        differences = [_difference(measure, *sums) for measure, sums in differing.items()]
        assert found == [AccountDifference("1", f"A-{self.known.code} 1", differences)]
        assert verdict.differing == 1
        measures = {it: sums for it, sums in verdict.totals.measures.items() if it.startswith("added ")}
        expected = {it.measure: (it.staged, it.created) for it in differences}
        for measure, sum_ in equal.items():
            staged, created = expected.get(measure, (0, 0))
            expected[measure] = (staged + Decimal(sum_), created + Decimal(sum_))
        assert measures == expected


@pytest.fixture
def book(session: Session, within: sessionmaker[Session], known: KnownSupplier) -> Book:
    return Book(session, within, known)


def _difference(measure: str, staged: Any, created: Any) -> Difference:
    return Difference(measure, Decimal(staged), Decimal(created))


def _make(session: Session, known: KnownSupplier, number: str) -> models.Account:
    process = make_created(session, known, number, service_account_number=f"A-{known.code} {number}")
    return session.scalars(select(models.Account).filter_by(account_import_process_id=process.id)).one()


def _make_ledger(session: Session, known: KnownSupplier, number: str) -> models.Ledger:
    account = _make(session, known, number)
    return session.scalars(select(models.Ledger).filter_by(account_pk=account.id)).one()


def _transaction(id_: str, amount: str, type_: str) -> dict[str, str]:
    return {"transaction_id": id_, "amount": amount, "type": type_}


def test_transactions_are_compared_by_their_ids(session: Session, book: Book, other: KnownSupplier) -> None:
    one, two = (_make_ledger(session, book.known, number) for number in "12")
    theirs = _make_ledger(session, other, "1")
    batch = book.batch("transactions")
    own, foreign = f"batch {batch.id}", "request 7"
    for ledger, id_, amount, type_, trace in (
        (one, "same", "1.10", "PAYMENT", own),
        (one, "less", "2.00", "CHARGE", own),
        (one, "typed", "3", "CREDIT", own),
        (one, "foreign", "40", "CHARGE", foreign),
        (two, "same", "0.01", "PAYMENT", own),
        (one, "never sent", "9", "CHARGE", own),
        (theirs, "gone", "5", "CHARGE", own),
    ):
        keys = {"ledger_pk": ledger.id, "account_pk": ledger.account_pk, "position": 0, "period": "ADDED"}
        values = {**_transaction(id_, amount, type_), "transaction_date": _DAY, "request_id": trace}
        add(session, models.Transaction(**keys, **values))
        ledger.ledger_balance += Decimal(amount) * (1 if type_ in ("PAYMENT", "CREDIT") else -1)
    sent = [_transaction("less", "2.01", "CHARGE"), _transaction("typed", "3", "CHARGE")]
    foreign_item = _transaction("foreign", "41", "CHARGE")
    book.send(batch, 1, "1", {"transactions": [_transaction("same", "1.1", "PAYMENT"), *sent]})
    book.send(batch, 2, "1", _transaction("gone", "5", "CHARGE"), status="ALREADY_ADDED")
    book.send(batch, 3, "1", {"transactions": [*sent, foreign_item]})
    book.send(batch, 4, "2", {"transactions": [_transaction("same", "0.01", "PAYMENT")]})
    book.send(batch, 5, "2", {"transactions": [_transaction("failed", "7", "CHARGE")]}, status="FAILED")
    book.send(batch, 6, "2", {"transactions": [_transaction("x", "7", "CHARGE")]}, chunk=99)
    # What another request added counts if all batches are compared.
    for target, charges, transactions in (
        (batch, ("51.01", "42.00"), (5, 4)),
        (None, ("10.01", "2.00"), (4, 3)),
    ):
        differing = {
            "added amount of CHARGE": charges,
            "added amount of CREDIT": (0, 3),
            "added transactions": transactions,
        }
        book.check(target, differing, {"added amount of PAYMENT": "1.11", "added transactions": 1})


def test_statements_are_compared_by_their_ids(session: Session, book: Book) -> None:
    one, two = (_make(session, book.known, number) for number in "12")
    batch = book.batch("statements")
    own = f"batch {batch.id}"
    days = dict.fromkeys(("issued_date", "bill_period_from_date", "bill_period_to_date"), _DAY)
    for account, id_, amount, trace in (
        (one, "same", 100, own),
        (one, "less", 200, own),
        (one, "foreign", 400, "request 7"),
        (two, "gone", 800, own),
    ):
        keys = {"account_pk": account.id, "position": 0, "origin": "ADDED", "request_id": trace}
        add(session, models.Statement(**keys, statement_id=id_, number=id_, gross_amount=amount, **days))
    amounts = {"same": 100, "less": 201, "foreign": 403, "gone": 800}
    items = [{"statement_id": id_, "gross_amount": amount} for id_, amount in amounts.items()]
    book.send(batch, 1, "1", {"statements": items})
    book.send(batch, 2, "1", {"statements": items[:2]})
    book.send(batch, 3, "2", {"statements": items[3:]})
    for target, cents, statements in ((batch, (1_504, 700), (4, 3)), (None, (1_101, 300), (3, 2))):
        differing = {"added gross_amount in cents": cents, "added statements": statements}
        book.check(target, differing, {"added gross_amount in cents": 800, "added statements": 1})


def _paths(*paths: str) -> list[dict[str, str]]:
    return [{"document_path": path} for path in paths]


def test_notes_are_compared_by_their_text_or_their_documents(session: Session, book: Book) -> None:
    one, two = (_make(session, book.known, number) for number in "12")
    batch = book.batch("notes")
    own = f"batch {batch.id}"
    for account, body, trace, day, documents, *sent in (
        (one, "same", own, 1, []),
        (one, "same", own, 2, []),
        (one, "two\r\nlines", own, 1, []),
        (one, "foreign", "request 7", 1, []),
        (one, "dated", own, 1, []),
        (one, None, own, 1, _paths("b", "a")),
        (two, "on another account", own, 1, []),
        (one, "another text", own, 1, [], {"body": "as sent", "document_paths": []}),
        (one, None, own, 1, _paths("another"), {"body": None, "document_paths": _paths("as sent")}),
    ):
        values = {"body": body, "documents": documents, "is_pinned": False, "request_id": trace}
        (was,) = sent or [{"body": body, "document_paths": documents}]
        sameness = hash_sameness(was)
        made_at = _AT.replace(day=day)
        add(
            session,
            models.Note(account_pk=account.id, created_at=made_at, sameness_sha256=sameness, **values),
        )
    items = [
        {"body": "same"},
        {"body": "two\nlines"},
        {"body": "same", "document_paths": _paths("whatever")},
        {"body": "foreign"},
        {"body": "on another account"},
        {"body": "dated", "created_at": "2026-01-01T01:00:00+01:00"},
        {"body": "dated", "created_at": "2026-01-01T00:00:01Z"},
        {"body": "dated", "created_at": "2026-01-02T00:00:00Z"},
        {"body": "", "document_paths": _paths("a", "b")},
        {"document_paths": _paths("a")},
        {"document_paths": _paths("c")},
        {"body": "as sent"},
        {"document_paths": _paths("as sent")},
    ]
    book.send(batch, 1, "1", {"notes": items})
    book.send(batch, 2, "1", {"notes": items[:1]})
    book.send(batch, 3, "2", {"body": "on another account"})
    for target, sums in ((batch, (12, 5)), (None, (11, 4))):
        book.check(target, {"added notes": sums}, {"added notes": 1})


def test_payment_instructions_are_compared_by_vendor_type_and_reference(session: Session, book: Book) -> None:
    one, two = (_make(session, book.known, number) for number in "12")
    acme, best = (add(session, models.PaymentVendor(name=it, kind="http", url="")) for it in ("Acme", "Best"))
    batch = book.batch("payment-instructions")
    own = f"batch {batch.id}"
    for account, vendor, type_, reference, trace in (
        (one, acme, "CARD", "same", own),
        (one, best, "CARD", "vendor", own),
        (one, acme, "DEBIT", "type", own),
        (one, acme, "CARD", "foreign", "request 7"),
        (two, acme, "CARD", "account", own),
    ):
        keys = {"account_pk": account.id, "payment_vendor_pk": vendor.id, "request_id": trace}
        add(session, models.PaymentInstruction(**keys, reference=reference, type=type_, details={}))
    references = ("same", "vendor", "type", "foreign", "account", "reference", "same")
    for line, reference in enumerate(references, 1):
        name = "ACME" if line < len(references) else "acme"
        book.send(batch, line, "1", {"vendor": name, "type": "CARD", "reference": reference})
    book.send(batch, 9, "2", {"vendor": "acme", "type": "CARD", "reference": "account"})
    for target, sums in ((batch, (6, 2)), (None, (5, 1))):
        book.check(target, {"added payment_instructions": sums}, {"added payment_instructions": 1})


def _note_lines(book: Book, batch: models.Batch, *numbers: str) -> None:
    """Insert a chunk for each of these accounts, with a line whose note it does not have."""
    for line, number in reversed([*enumerate(numbers, 1)]):
        add_chunk(book.session, batch, line)
        book.send(batch, line, number, {"notes": [{"body": "x"}]}, chunk=line)


def test_chunks_are_compared_in_pages(session: Session, book: Book, other: KnownSupplier) -> None:
    numbers = ["3", "1", "2"]
    for number in numbers:
        _make(session, book.known, number)
    _make(session, other, "1")
    batch, another = (book.batch("notes", chunk=False) for _ in range(2))
    _note_lines(book, batch, *numbers)
    _note_lines(book, another, "1")
    for of in (batch, another):
        make_line(session, of, 9, "1", "ADDED", understood=null(), chunk_line=2)
    make_line(session, batch, 10, "1", "FAILED", understood=null(), chunk_line=2)
    missing = [_difference("added notes", 1, 0)]
    for chunks, order in ((20, ["1", "2", "3"]), (1, numbers), (2, ["1", "3", "2"])):
        with patch.object(added_data, "CHUNKS", chunks):
            verdict, found = compare(book.within, book.known, batch.id)
        assert found == [AccountDifference(it, f"A-MINE {it}", missing) for it in order]
        assert (verdict.differing, verdict.totals.named_lines) == (3, [(batch.id, 9)])
        assert verdict.totals.measures == {"added notes": (Decimal(3), Decimal(0))}


def test_a_supplier_has_the_batches_that_added_something(
    session: Session, book: Book, other: KnownSupplier
) -> None:
    for supplier in (book.known, other):
        _make(session, supplier, "1")
    earlier = new_id()
    _note_lines(book, book.batch("notes", chunk=False), "1")
    for supplier, kind, values in (
        (book.known, "notes", {"mode": "dry-run"}),
        (book.known, "notes", {"lines_removed_at": _AT}),
        (book.known, "accounts", {}),
        (other, "notes", {}),
    ):
        theirs = replace(book, known=supplier)
        _note_lines(theirs, theirs.batch(kind, chunk=False, **values), "1")
    batch = book.batch("statements", id=earlier)
    book.send(batch, 1, "1", {"statements": [{"statement_id": "s", "gross_amount": 1}]})
    verdict, found = compare(book.within, book.known)
    assert [[it.measure for it in account.differences] for account in found] == [
        ["added gross_amount in cents", "added statements"],
        ["added notes"],
    ]
    assert verdict.totals.measures["added notes"] == (Decimal(1), Decimal(0))
    assert compare(book.within, book.known, batch.id)[1] == found[:1]


_NOTHING = Submitted()
_SENT = replace(_NOTHING, sent=9, refused=3, waiting=2, created=3, skipped=1, acknowledged=2, open=3)
_SENT = replace(_SENT, added_lines_refused=2, added_lines_waiting=1)


@pytest.mark.usefixtures("unsorted")
def test_lines_are_counted_and_listed_by_what_became_of_them(
    session: Session, book: Book, other: KnownSupplier
) -> None:
    known, within = book.known, book.within
    batch, another = (book.batch("notes", chunk=False) for _ in range(2))
    statuses = ("PENDING", "FAILED", "ADDED", "ALREADY_ADDED", "FAILED", "SKIPPED", "DEFERRED", "FAILED")
    for line, status in reversed([*enumerate([*statuses, "ADDED"], 1)]):
        make_line(session, batch, line, str(line), status, *(["x"] if status == "FAILED" else []))
    make_line(session, another, 1, "1", "FAILED")
    for supplier, of, line in ((known, batch, 5), (known, batch, 7), (known, another, 2), (other, batch, 1)):
        keys = {"import_supplier_id": supplier.id, "batch_id": of.id, "line_number": line}
        add(session, models.Acknowledgement(**keys, reason="", acknowledged_by=""))
    assert count_submitted(session, known.id, batch_id=batch.id) == _SENT
    errors = [{"code": "x", "detail": "", "attr": None}]
    expected = [
        OpenItem("1", OpenReason.WAITING, batch.id, 1, [], is_line=True),
        OpenItem("2", OpenReason.REFUSED, batch.id, 2, errors, is_line=True),
        OpenItem("8", OpenReason.REFUSED, batch.id, 8, errors, is_line=True),
    ]
    for page in (10_000, 1, 2, 3):
        assert list(find_open(within, known.id, batch_id=batch.id, size=page)) == expected
    lines = find_open(within, known.id, batch_id=batch.id, size=1)
    assert next(lines) == expected[0]
    session.execute(delete(models.BatchLine).where(models.BatchLine.line_number == 2))
    assert list(lines) == expected[2:]
    assert count_submitted(session, known.id, batch_id=book.batch("notes").id) == _NOTHING
