"""What was sent and what of it is open: by account, by line without a number, and as acknowledged."""

from datetime import timedelta
from hashlib import sha256
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Acknowledgement, Batch
from migration_service.services.reconciliation import acknowledgements
from migration_service.services.reconciliation.acknowledgements import (
    AcknowledgementOrder,
    acknowledge,
)
from migration_service.services.reconciliation.submitted import (
    OpenItem,
    find_open,
    find_refused,
    read_place,
)
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import OpenReason
from support.audit import list_entries
from support.rows import add, build_line, make_batch, make_process, read_now


def _errors(*codes: str) -> list[Any]:
    return [{"code": code, "detail": "", "attr": None} for code in codes]


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


def test_the_audit_has_the_first_ones_and_the_hash_of_all(
    session: Session, known: KnownSupplier, book: list[Batch]
) -> None:
    with patch.object(acknowledgements, "MOST_LISTED", 1):
        numbers = ["first", "broken"]
        order = AcknowledgementOrder(
            reason="Closed.", acknowledged_by="dora", external_account_numbers=numbers
        )
        acknowledge(session, known.id, order)
    (entry,) = list_entries(session)
    details = entry.details or {}
    assert (details["accounts"], details["sha256"]) == (["broken"], sha256(b"broken\nfirst\n").hexdigest())
