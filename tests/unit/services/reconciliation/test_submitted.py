"""What was sent and what of it is open: by account, by line without a number, and as acknowledged."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import RequestFailedValidationError
from migration_service.models import Acknowledgement, Batch
from migration_service.services.reconciliation import acknowledgements
from migration_service.services.reconciliation.acknowledgements import (
    AcknowledgementOrder,
    acknowledge,
    count_acknowledgements,
    list_acknowledgements,
)
from migration_service.services.reconciliation.submitted import (
    OpenItem,
    Submitted,
    count_submitted,
    find_open,
    find_refused,
    read_place,
)
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import OpenReason
from support.audit import list_entries
from support.rows import add, build_line, make_batch, make_process, make_supplier, read_now

_NOTHING = Submitted()


def _errors(*codes: str) -> list[Any]:
    return [{"code": code, "detail": "", "attr": None} for code in codes]


def _refused(number: str | None, batch: Batch, line: int, *codes: str) -> OpenItem:
    return OpenItem(number, OpenReason.REFUSED, batch.id, line, _errors(*codes), number is None)


def _waiting(number: str | None, batch: Batch, line: int) -> OpenItem:
    return OpenItem(number, OpenReason.WAITING, batch.id, line, [], number is None)


def _staged(number: str) -> OpenItem:
    return OpenItem(number, OpenReason.STAGED)


@pytest.fixture
def book(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[Batch]:
    """Return two batches. The second one is the newer one, and a third and a fourth only validate or add."""
    first, second, third = (make_batch(session, known, mode=mode) for mode in ("stage", "import", "validate"))
    notes = make_batch(session, known, mode="import", kind="notes")
    rehearsed = make_batch(session, known, mode="validate", kind="notes")
    theirs, their_notes = make_batch(session, other), make_batch(session, other, mode="import", kind="notes")
    for batch, line, number, status, *codes in (
        (first, 1, "settled", "FAILED", "x"),
        (first, 2, "broken", "FAILED", "old"),
        (first, 3, "later", "PENDING"),
        (first, 4, None, "FAILED", "parse_error"),
        (first, 5, "waiting", "FAILED", "x"),
        (first, 6, "created", "STAGED"),
        (first, 7, "first", "FAILED", "a"),
        (second, 1, "broken", "FAILED", "duplicate_line_in_batch"),
        (second, 2, "broken", "FAILED", "new", "other"),
        (second, 3, "broken", "FAILED", "newest"),
        (second, 4, "waiting", "PENDING"),
        (second, 5, None, "FAILED", "parse_error"),
        (second, 6, None, "PENDING"),
        (second, 7, "created", "IMPORTED"),
        (second, 8, "busy", "IMPORTED"),
        (second, 9, "created", "IMPORTED"),
        (second, 10, "busy", "IMPORTED"),
        (third, 1, "rehearsed", "FAILED", "r"),
        (third, 2, "staged", "VALID"),
        (notes, 1, "noted", "FAILED", "n"),
        (rehearsed, 1, "noted", "FAILED", "n"),
        (theirs, 1, "theirs", "FAILED", "t"),
        (their_notes, 1, "noted", "FAILED", "n"),
    ):
        session.add(build_line(batch, line, number, status, *codes))
    for number, state in (
        ("settled", "PENDING"),
        ("created", "IMPORTED"),
        ("created too", "IMPORTED"),
        ("busy", "IN_PROGRESS"),
        ("staged", "PENDING"),
        ("skipped", "SKIPPED"),
    ):
        make_process(session, known, number, state=state)
    at = {"refused_at": read_now(session), "refused_errors": _errors("new")}
    for number in ("created", "broken", "first"):
        make_process(session, other, number, state="IMPORTED", **at)
    return [first, second, third, notes]


def test_each_account_counts_once_by_its_newest_line(
    session: Session,
    within: sessionmaker[Session],
    known: KnownSupplier,
    other: KnownSupplier,
    book: list[Batch],
) -> None:
    first, second, _, notes = book
    for supplier, mode, kind, lines in (
        (known, "stage", "accounts", 7),
        (known, "import", "accounts", 20),
        (known, "validate", "accounts", 100),
        (known, "stage", "notes", 1_000),
        (other, "stage", "accounts", 10_000),
    ):
        removed = {"lines": lines, "lines_removed_at": read_now(session)}
        make_batch(session, supplier, mode=mode, kind=kind, **removed)
    make_batch(session, known, lines=3_000)
    expected = replace(_NOTHING, sent=13, refused=4, waiting=3, staged=3, created=2, skipped=1, open=11)
    expected = replace(expected, lines_removed=27, added_lines_refused=1)
    assert count_submitted(session, known.id) == expected
    assert list(find_open(within, known.id)) == [
        *(_staged("busy"), _staged("settled"), _staged("staged")),
        _refused("broken", second, 2, "new", "other"),
        _refused("first", first, 7, "a"),
        _waiting("later", first, 3),
        _waiting("waiting", second, 4),
        _refused(None, first, 4, "parse_error"),
        _refused(None, second, 5, "parse_error"),
        _waiting(None, second, 6),
        replace(_refused("noted", notes, 1, "n"), is_line=True),
    ]


@pytest.mark.usefixtures("unsorted")
def test_a_batch_has_what_is_on_its_lines(
    session: Session, within: sessionmaker[Session], known: KnownSupplier, book: list[Batch]
) -> None:
    first, second, third, _ = book
    counts = {
        first.id: replace(_NOTHING, sent=7, refused=4, waiting=1, staged=1, created=1, open=6),
        second.id: replace(_NOTHING, sent=6, refused=2, waiting=2, staged=1, created=1, open=5),
        third.id: replace(_NOTHING, sent=2, refused=1, staged=1, open=2),
    }
    found = {
        first.id: [
            _staged("settled"),
            _refused("broken", first, 2, "old"),
            _refused("first", first, 7, "a"),
            _waiting("later", first, 3),
            _refused("waiting", first, 5, "x"),
            _refused(None, first, 4, "parse_error"),
        ],
        second.id: [
            _staged("busy"),
            _refused("broken", second, 2, "new", "other"),
            _waiting("waiting", second, 4),
            _refused(None, second, 5, "parse_error"),
            _waiting(None, second, 6),
        ],
        third.id: [_staged("staged"), _refused("rehearsed", third, 1, "r")],
    }
    assert {it: count_submitted(session, known.id, batch_id=it) for it in counts} == counts
    assert {it: list(find_open(within, known.id, batch_id=it)) for it in found} == found


@pytest.mark.usefixtures("unsorted")
def test_pages_join(
    session: Session, within: sessionmaker[Session], known: KnownSupplier, book: list[Batch]
) -> None:
    targets: list[UUID | None] = [None, book[1].id]
    make_process(session, known, "waiting", state="PENDING")
    whole = [list(find_open(within, known.id, batch_id=it)) for it in targets]
    assert [len(it) for it in whole] == [11, 5]
    assert whole[1][:2] == [_staged("busy"), _staged("waiting")]
    for page in (1, 2):
        assert [list(find_open(within, known.id, batch_id=it, size=page)) for it in targets] == whole
    for target, items in zip(targets, whole, strict=True):
        for number, item in enumerate(items, 1):
            after = read_place(item.key)
            assert list(find_open(within, known.id, batch_id=target, after=after)) == items[number:]


def test_what_is_open_is_found_by_its_reason_and_its_errors(
    session: Session,
    within: sessionmaker[Session],
    known: KnownSupplier,
    other: KnownSupplier,
    book: list[Batch],
) -> None:
    now = read_now(session)
    at = {"refused_at": now, "refused_errors": _errors("new")}
    for state in ("PENDING", "IMPORTED"):
        make_process(session, known, f"older {state}", state=state, **at)
    make_process(session, known, "stays out", **at)
    earlier = now - timedelta(microseconds=1)
    for owner, number, moment in (
        (known, "stays out", now),
        (known, "older IMPORTED", earlier),
        (other, "older IMPORTED", now),
    ):
        said = {"reason": "", "acknowledged_by": "", "acknowledged_at": moment}
        keys = {"import_supplier_id": owner.id, "external_account_number": number}
        add(session, Acknowledgement(**keys, **said))
    for target in (None, *(it.id for it in book)):
        items = list(find_open(within, known.id, batch_id=target))
        for reason in OpenReason:
            found = list(find_open(within, known.id, batch_id=target, reason=reason))
            assert found == [it for it in items if it.reason is reason]
        for code in ("new", "other", "n", "parse_error", "nothing"):
            found = list(find_open(within, known.id, batch_id=target, code=code))
            assert found == [it for it in items if code in it.codes]
        for wanted in ("new", "old", None):
            refused = find_refused(session, known.id, batch_id=target, code=wanted, limit=99)
            assert {it.key for it in refused} == {
                it.key.replace("staged.", "refused.")
                for it in items
                if it.reason in (OpenReason.REFUSED, OpenReason.CREATED_OLDER_VERSION)
                and (wanted is None or wanted in it.codes)
                and (target is not None or it.external_account_number != "noted")
            }
        created, others = (
            list(find_open(within, known.id, batch_id=target, is_created=it)) for it in (True, False)
        )
        assert created == [it for it in items if it.external_account_number == "older IMPORTED"]
        assert others == [it for it in items if it not in created and it.external_account_number != "noted"]
    assert {it.reason for it in find_open(within, known.id)} == set(OpenReason)
    assert len(list(find_open(within, known.id, code="new"))) == 3


def _order(**given: Any) -> AcknowledgementOrder:
    return AcknowledgementOrder(reason="Closed.", acknowledged_by="dora", **given)


def _open_of(within: sessionmaker[Session], known: KnownSupplier) -> list[str | int | None]:
    """Return what is open and not staged: the numbers, and the lines without one."""
    items = find_open(within, known.id)
    found = [
        it for it in items if it.reason is not OpenReason.STAGED and it.external_account_number != "noted"
    ]
    return [it.external_account_number or it.line_number for it in found]


def test_what_is_acknowledged_is_not_open(
    session: Session,
    within: sessionmaker[Session],
    known: KnownSupplier,
    other: KnownSupplier,
    book: list[Batch],
) -> None:
    first, second, *_ = book
    numbers = ["broken", "later"]
    assert acknowledge(session, known.id, _order(external_account_numbers=numbers)) == 2
    assert _open_of(within, known) == ["first", "waiting", 4, 5, 6]
    assert acknowledge(session, known.id, _order(batch_id=second.id, line_numbers=[6])) == 1
    assert _open_of(within, known) == ["first", "waiting", 4, 5]
    assert acknowledge(session, known.id, _order(batch_id=second.id)) == 2
    assert _open_of(within, known) == ["first", "waiting", 4]
    found = count_submitted(session, known.id)
    assert (found.acknowledged, found.open, found.refused, found.waiting) == (4, 7, 4, 3)
    keys = {"import_supplier_id": other.id, "external_account_number": "first"}
    add(session, Acknowledgement(**keys, reason="", acknowledged_by=""))
    assert "first" in _open_of(within, known)
    assert acknowledge(session, known.id, _order(batch_id=first.id, line_numbers=[4])) == 1
    assert _open_of(within, known) == ["first", "waiting"]
    stored = list_acknowledgements(session, known.id).all()
    assert [it.id for it in stored] == sorted((it.id for it in stored), reverse=True)
    places = [(it.external_account_number, it.batch_id, it.line_number) for it in stored]
    assert places[0] == (None, first.id, 4)
    assert {it for it in places if it[1] == first.id} == {(None, first.id, 4), ("later", first.id, 3)}
    said = {(it.import_supplier_id, it.reason, it.acknowledged_by) for it in stored}
    assert said == {(known.id, "Closed.", "dora")}
    # Line 6 of the second batch was acknowledged twice.
    assert len(stored) == count_acknowledgements(session, known.id) == 5


def test_of_an_account_that_is_acknowledged_again_the_latest_reason_counts(
    session: Session, known: KnownSupplier, book: list[Batch]
) -> None:
    for reason in ("Closed.", "Moved out."):
        acknowledge(session, known.id, replace(_order(external_account_numbers=["later"]), reason=reason))
    assert [it.reason for it in list_acknowledgements(session, known.id)] == ["Moved out."]
    assert count_acknowledgements(session, known.id) == 1


def test_what_is_refused_again_is_open_again(
    session: Session, within: sessionmaker[Session], known: KnownSupplier, book: list[Batch]
) -> None:
    for given in ({"external_account_numbers": ["first"]}, {"batch_id": book[0].id}):
        acknowledge(session, known.id, _order(**given))
    for made in session.query(Acknowledgement):
        made.acknowledged_at = read_now(session) - timedelta(seconds=1)
    session.flush()
    assert _open_of(within, known) == ["broken", "first", "later", "waiting", 4, 5, 6]
    for batch in book:
        batch.created_at = read_now(session) - timedelta(seconds=1)
    session.flush()
    assert _open_of(within, known) == ["broken", "later", "waiting", 5, 6]


def _refuse(session: Session, known: KnownSupplier, **given: Any) -> list[tuple[str, str, str | None]]:
    with pytest.raises(RequestFailedValidationError) as refused:
        acknowledge(session, known.id, _order(**given))
    errors = [(it.code, it.detail, it.attr) for it in refused.value.errors]
    assert refused.value.detail == errors[0][1]
    return errors


def test_only_what_was_refused_or_waits_can_be_acknowledged(
    session: Session, known: KnownSupplier, book: list[Batch]
) -> None:
    expected = (
        "Account {!r} was not refused and is not waiting. A staged account can be skipped. An account that "
        "was created or never sent needs no acknowledgement."
    )
    assert _refuse(session, known, external_account_numbers=["first", "created", "theirs"]) == [
        ("invalid", expected.format("created"), "external_account_numbers.1"),
        ("invalid", expected.format("theirs"), "external_account_numbers.2"),
    ]
    expected = (
        "Line {} of the batch does not exist, or it has an account number. In that case acknowledge the "
        "number."
    )
    assert _refuse(session, known, batch_id=book[0].id, line_numbers=[4, 7, 5]) == [
        ("invalid", expected.format(7), "line_numbers.1"),
        ("invalid", expected.format(5), "line_numbers.2"),
    ]


def _sha256(*texts: str) -> str:
    return hashlib.sha256("".join(f"{it}\n" for it in texts).encode()).hexdigest()


def test_the_audit_says_what_was_acknowledged_by_whom_and_why(
    session: Session, known: KnownSupplier, book: list[Batch]
) -> None:
    second = make_supplier(session, "SECOND", known.organisation_id)
    empty = make_batch(session, second)
    assert acknowledge(session, second.id, _order(batch_id=empty.id)) == 0
    acknowledge(session, known.id, _order(batch_id=book[1].id))
    with patch.object(acknowledgements, "MOST_LISTED", 1):
        acknowledge(session, known.id, _order(external_account_numbers=["first", "broken"]))
    told = [
        (it.action, it.subject_kind, it.subject, it.organisation_id, it.details)
        for it in list_entries(session)
    ]
    what = ("import_supplier.refusals_acknowledged", "import_supplier", "MINE", known.organisation_id)
    why = {"reason": "Closed.", "by": "dora"}
    of_lines, of_accounts = _sha256("5", "6"), _sha256("broken", "first")
    assert told == [
        (*what, {"acknowledged": 2, "batch_id": str(book[1].id), "lines": [5, 6], **why, "sha256": of_lines}),
        (*what, {"acknowledged": 2, "batch_id": None, "accounts": ["broken"], **why, "sha256": of_accounts}),
    ]
