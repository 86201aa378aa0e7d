"""What batches of added data sent, compared with what accounts have: each kind, to the last item."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import delete, null, select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.models import (
    Account,
    Acknowledgement,
    Batch,
    BatchLine,
    Ledger,
    Note,
    PaymentInstruction,
    PaymentVendor,
    Statement,
    Transaction,
)
from migration_service.services.reconciliation import added_data
from migration_service.services.reconciliation.added_data import (
    count_added,
    find_added_differences,
    find_differences_of_batches,
    find_open_lines,
)
from migration_service.services.reconciliation.created_accounts import find_differences
from migration_service.services.reconciliation.differences import AccountDifference, Difference, Totals
from migration_service.services.reconciliation.submitted import count_submitted, find_open
from migration_service.services.reconciliation.submitted_items import OpenItem, Submitted
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import OpenReason
from unit.services.reporting.rows import add, make_batch, make_chunk, make_created, make_line

_DAY = date(2026, 1, 1)
_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _difference(measure: str, staged: Any, created: Any) -> Difference:
    return Difference(measure, Decimal(staged), Decimal(created))


def _make(session: Session, known: KnownSupplier, number: str) -> Account:
    numbered = {"service_account_number": f"A-{known.code} {number}"}
    process = make_created(session, known, number, **numbered)
    return session.scalars(select(Account).filter_by(account_import_process_id=process.id)).one()


def _make_batch(session: Session, known: KnownSupplier, kind: str, **values: Any) -> Batch:
    return make_batch(session, known, **{"mode": "import", "kind": kind} | values)


def _send(
    session: Session,
    batch: Batch,
    line: int,
    number: str,
    body: Any,
    *,
    status: str = "ADDED",
    chunk: int = 1,
) -> None:
    payload = json.dumps(body).encode()
    make_line(session, batch, line, number, status, payload=payload, chunk_line=chunk)


def _compare(
    within: sessionmaker[Session], known: KnownSupplier, batch: Batch | None = None
) -> tuple[dict[str, tuple[Decimal, Decimal]], dict[str, list[Difference]]]:
    """Return the sums of a batch, or of all batches, and the differences of each account."""
    totals = Totals()
    if batch is None:
        found = list(find_differences_of_batches(within, known.id, totals))
    else:
        found = list(find_added_differences(within, known.id, totals, batch.id))
    for account in found:
        assert account.service_account_number == f"A-{known.code} {account.external_account_number}"
    assert totals.differing == len(found)
    numbers = [it.external_account_number for it in found]
    assert numbers == sorted(numbers)
    return totals.measures, {it.external_account_number: it.differences for it in found}


def _sums(differences: list[Difference]) -> dict[str, tuple[Decimal, Decimal]]:
    return {it.measure: (it.staged, it.created) for it in differences}


def _add_transaction(
    session: Session, ledger: Ledger, id_: str, *, amount: str, type_: str, request_id: str
) -> None:
    made = Transaction(
        ledger_pk=ledger.id,
        account_pk=ledger.account_pk,
        position=0,
        period="ADDED",
        transaction_id=id_,
        transaction_date=_DAY,
        amount=Decimal(amount),
        type=type_,
        request_id=request_id,
    )
    add(session, made)


def _make_ledger(session: Session, account: Account) -> Ledger:
    return add(session, Ledger(account_pk=account.id, position=0, ledger_code="A", ledger_balance=0))


def _transaction(id_: str, amount: str, type_: str) -> dict[str, str]:
    return {"transaction_id": id_, "amount": amount, "type": type_}


def test_transactions_are_compared_by_their_ids(
    session: Session, within: sessionmaker[Session], known: KnownSupplier, other: KnownSupplier
) -> None:
    one, two = (_make_ledger(session, _make(session, known, number)) for number in "12")
    theirs = _make_ledger(session, _make(session, other, "1"))
    batch = _make_batch(session, known, "transactions")
    make_chunk(session, batch)
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
        _add_transaction(session, ledger, id_, amount=amount, type_=type_, request_id=trace)
    sent = [_transaction("less", "2.01", "CHARGE"), _transaction("typed", "3", "CHARGE")]
    foreign_item = _transaction("foreign", "41", "CHARGE")
    _send(session, batch, 1, "1", {"transactions": [_transaction("same", "1.1", "PAYMENT"), *sent]})
    _send(session, batch, 2, "1", _transaction("gone", "5", "CHARGE"), status="ALREADY_ADDED")
    _send(session, batch, 3, "1", {"transactions": [*sent, foreign_item]})
    _send(session, batch, 4, "2", {"transactions": [_transaction("same", "0.01", "PAYMENT")]})
    _send(session, batch, 5, "2", {"transactions": [_transaction("failed", "7", "CHARGE")]}, status="FAILED")
    _send(session, batch, 6, "2", {"transactions": [_transaction("x", "7", "CHARGE")]}, chunk=99)
    totals, found = _compare(within, known, batch)
    differences = [
        _difference("added amount of CHARGE", "51.01", "42.00"),
        _difference("added amount of CREDIT", 0, 3),
        _difference("added transactions", 5, 4),
    ]
    assert found == {"1": differences}
    payments = Decimal("1.11"), Decimal("1.11")
    expected = _sums(differences) | {
        "added amount of PAYMENT": payments,
        "added transactions": (Decimal(6), Decimal(5)),
    }
    assert totals == expected
    totals, found = _compare(within, known)
    # What another request added counts there.
    differences = [
        _difference("added amount of CHARGE", "10.01", "2.00"),
        _difference("added amount of CREDIT", 0, 3),
        _difference("added transactions", 4, 3),
    ]
    assert found == {"1": differences}
    assert totals == expected | {
        **_sums(differences),
        "added transactions": (Decimal(5), Decimal(4)),
    }
    assert list(totals) == sorted(totals)


def test_statements_are_compared_by_their_ids(
    session: Session, within: sessionmaker[Session], known: KnownSupplier
) -> None:
    one, two = (_make(session, known, number) for number in "12")
    batch = _make_batch(session, known, "statements")
    make_chunk(session, batch)
    for account, id_, amount, trace in (
        (one, "same", 100, "own"),
        (one, "less", 200, "own"),
        (one, "foreign", 400, "request 7"),
        (two, "gone", 800, "own"),
    ):
        made = Statement(
            account_pk=account.id,
            position=0,
            origin="ADDED",
            statement_id=id_,
            number=id_,
            issued_date=_DAY,
            bill_period_from_date=_DAY,
            bill_period_to_date=_DAY,
            gross_amount=amount,
            request_id=f"batch {batch.id}" if trace == "own" else trace,
        )
        add(session, made)
    amounts = {"same": 100, "less": 201, "foreign": 403, "gone": 800}
    items = [{"statement_id": id_, "gross_amount": amount} for id_, amount in amounts.items()]
    _send(session, batch, 1, "1", {"statements": items})
    _send(session, batch, 2, "1", {"statements": items[:2]})
    _send(session, batch, 3, "2", {"statements": items[3:]})
    for target, sums in ((batch, ((1_504, 700), (4, 3))), (None, ((1_101, 300), (3, 2)))):
        totals, found = _compare(within, known, target)
        differences = [
            _difference("added gross_amount in cents", *sums[0]),
            _difference("added statements", *sums[1]),
        ]
        assert found == {"1": differences}
        expected = {it.measure: (it.staged, it.created) for it in differences}
        staged, created = expected["added gross_amount in cents"]
        expected["added gross_amount in cents"] = staged + 800, created + 800
        staged, created = expected["added statements"]
        expected["added statements"] = staged + 1, created + 1
        assert totals == expected


def _add_note(
    session: Session, account: Account, body: str | None, trace: str, *paths: str, at: datetime = _AT
) -> None:
    made = Note(
        account_pk=account.id,
        body=body,
        documents=[{"document_path": path} for path in paths],
        is_pinned=False,
        created_at=at,
        request_id=trace,
        sameness_sha256=f"{body} {paths}".encode(),
    )
    add(session, made)


def _paths(*paths: str) -> list[dict[str, str]]:
    return [{"document_path": path} for path in paths]


def test_notes_are_compared_by_their_text_or_their_documents(
    session: Session, within: sessionmaker[Session], known: KnownSupplier
) -> None:
    one, two = (_make(session, known, number) for number in "12")
    batch = _make_batch(session, known, "notes")
    make_chunk(session, batch)
    own = f"batch {batch.id}"
    for day in (1, 2):
        _add_note(session, one, "same", own, at=_AT.replace(day=day))
    _add_note(session, one, "foreign", "request 7")
    _add_note(session, one, "dated", own)
    _add_note(session, one, None, own, "b", "a")
    _add_note(session, two, "on another account", own)
    items = [
        {"body": "same"},
        {"body": "same", "document_paths": _paths("whatever")},
        {"body": "foreign"},
        {"body": "on another account"},
        {"body": "dated", "created_at": "2026-01-01T01:00:00+01:00"},
        {"body": "dated", "created_at": "2026-01-01T00:00:01Z"},
        {"body": "dated", "created_at": "2026-01-02T00:00:00Z"},
        {"body": "", "document_paths": _paths("a", "b")},
        {"document_paths": _paths("a")},
        {"document_paths": _paths("c")},
    ]
    _send(session, batch, 1, "1", {"notes": items})
    _send(session, batch, 2, "1", {"notes": items[:1]})
    _send(session, batch, 3, "2", {"body": "on another account"})
    for target, sums in ((batch, (9, 4)), (None, (8, 3))):
        totals, found = _compare(within, known, target)
        assert found == {"1": [_difference("added notes", *sums)]}
        assert totals == {"added notes": (Decimal(sums[0] + 1), Decimal(sums[1] + 1))}


def test_payment_instructions_are_compared_by_vendor_type_and_reference(
    session: Session, within: sessionmaker[Session], known: KnownSupplier
) -> None:
    one, two = (_make(session, known, number) for number in "12")
    vendors = {
        name: add(session, PaymentVendor(name=name, kind="http", url="")).id for name in ("Acme", "Best")
    }
    batch = _make_batch(session, known, "payment-instructions")
    make_chunk(session, batch)
    for account, vendor, type_, reference, trace in (
        (one, "Acme", "CARD", "same", "own"),
        (one, "Best", "CARD", "vendor", "own"),
        (one, "Acme", "DEBIT", "type", "own"),
        (one, "Acme", "CARD", "foreign", "request 7"),
        (two, "Acme", "CARD", "account", "own"),
    ):
        made = PaymentInstruction(
            account_pk=account.id,
            payment_vendor_pk=vendors[vendor],
            reference=reference,
            type=type_,
            details={},
            request_id=f"batch {batch.id}" if trace == "own" else trace,
        )
        add(session, made)
    references = ("same", "vendor", "type", "foreign", "account", "reference", "same")
    for line, reference in enumerate(references, 1):
        vendor = "ACME" if line < len(references) else "acme"
        _send(session, batch, line, "1", {"vendor": vendor, "type": "CARD", "reference": reference})
    _send(session, batch, 9, "2", {"vendor": "acme", "type": "CARD", "reference": "account"})
    for target, sums in ((batch, (6, 2)), (None, (5, 1))):
        totals, found = _compare(within, known, target)
        assert found == {"1": [_difference("added payment_instructions", *sums)]}
        assert totals == {"added payment_instructions": (Decimal(sums[0] + 1), Decimal(sums[1] + 1))}


def _note_lines(session: Session, batch: Batch, *numbers: str) -> None:
    """Insert a chunk for each of these accounts, with a line whose note it does not have."""
    for line, number in reversed([*enumerate(numbers, 1)]):
        make_chunk(session, batch, line)
        _send(session, batch, line, number, {"notes": [{"body": "x"}]}, chunk=line)


def test_chunks_are_compared_in_pages(
    session: Session,
    within: sessionmaker[Session],
    known: KnownSupplier,
    other: KnownSupplier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = ["3", "1", "2"]
    for number in numbers:
        _make(session, known, number)
    _make(session, other, "1")
    batch, another = (_make_batch(session, known, "notes") for _ in range(2))
    _note_lines(session, batch, *numbers)
    _note_lines(session, another, "1")
    for of in (batch, another):
        make_line(session, of, 9, "1", "ADDED", payload=null(), chunk_line=2)
    make_line(session, batch, 10, "1", "FAILED", payload=null(), chunk_line=2)
    for chunks, order in ((20, ["1", "2", "3"]), (1, numbers), (2, ["1", "3", "2"])):
        monkeypatch.setattr(added_data, "CHUNKS", chunks)
        totals = Totals()
        found = list(find_added_differences(within, known.id, totals, batch.id))
        missing = [_difference("added notes", 1, 0)]
        assert found == [AccountDifference(it, f"A-MINE {it}", missing) for it in order]
        assert (totals.differing, totals.not_comparable) == (3, 1)
        assert totals.measures == {"added notes": (Decimal(3), Decimal(0))}


def test_a_supplier_has_the_batches_that_added_something(
    session: Session, within: sessionmaker[Session], known: KnownSupplier, other: KnownSupplier
) -> None:
    _make(session, known, "1")
    _make(session, other, "1")
    earlier = new_id()
    _note_lines(session, _make_batch(session, known, "notes"), "1")
    for supplier, kind, values in (
        (known, "notes", {"mode": "dry-run"}),
        (known, "notes", {"lines_removed_at": _AT}),
        (known, "accounts", {}),
        (other, "notes", {}),
    ):
        _note_lines(session, _make_batch(session, supplier, kind, **values), "1")
    batch = _make_batch(session, known, "statements", id=earlier)
    make_chunk(session, batch)
    _send(session, batch, 1, "1", {"statements": [{"statement_id": "s", "gross_amount": 1}]})
    totals = Totals()
    found = list(find_differences(within, known.id, totals))
    assert [[it.measure for it in account.differences] for account in found] == [
        ["added gross_amount in cents", "added statements"],
        ["added notes"],
    ]
    assert totals.measures["added notes"] == (Decimal(1), Decimal(0))
    assert list(find_differences(within, known.id, Totals(), batch_id=batch.id)) == found[:1]


_SENT = Submitted(
    sent=9,
    refused=3,
    waiting=2,
    staged=0,
    created=3,
    skipped=1,
    acknowledged=2,
    open=3,
    lines_removed=0,
)


@pytest.mark.usefixtures("unsorted")
def test_lines_are_counted_and_listed_by_what_became_of_them(
    session: Session,
    within: sessionmaker[Session],
    known: KnownSupplier,
    other: KnownSupplier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch, another = (_make_batch(session, known, "notes") for _ in range(2))
    statuses = ("PENDING", "FAILED", "ADDED", "ALREADY_ADDED", "FAILED", "SKIPPED", "DEFERRED", "FAILED")
    for line, status in reversed([*enumerate([*statuses, "ADDED"], 1)]):
        make_line(session, batch, line, str(line), status, *(["x"] if status == "FAILED" else []))
    make_line(session, another, 1, "1", "FAILED")
    for supplier, of, line in (
        (known, batch, 5),
        (known, batch, 7),
        (known, another, 2),
        (other, batch, 1),
    ):
        made = Acknowledgement(
            import_supplier_id=supplier.id,
            batch_id=of.id,
            line_number=line,
            reason="",
            acknowledged_by="",
        )
        add(session, made)
    assert count_added(session, known.id, batch.id) == _SENT
    assert count_submitted(session, known.id, batch_id=batch.id) == _SENT
    errors = [{"code": "x", "detail": "", "attr": None}]
    expected = [
        OpenItem("1", OpenReason.WAITING, batch.id, 1, []),
        OpenItem("2", OpenReason.REFUSED, batch.id, 2, errors),
        OpenItem("8", OpenReason.REFUSED, batch.id, 8, errors),
    ]
    for page in (10_000, 1, 2, 3):
        monkeypatch.setattr(added_data, "PAGE", page)
        assert list(find_open_lines(within, known.id, batch.id)) == expected
    assert list(find_open(within, known.id, batch_id=batch.id)) == expected
    monkeypatch.setattr(added_data, "PAGE", 1)
    lines = find_open_lines(within, known.id, batch.id)
    assert next(lines) == expected[0]
    session.execute(delete(BatchLine).where(BatchLine.line_number == 2))
    assert list(lines) == expected[2:]
    nothing = replace(_SENT, **dict.fromkeys(Submitted.__slots__, 0))
    assert count_added(session, known.id, _make_batch(session, known, "notes").id) == nothing
