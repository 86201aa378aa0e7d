"""What is compared, and which accounts a comparison has read, to the microsecond."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import ComparedAccount, Comparison, ReceiptException
from migration_service.services.reconciliation.comparisons import estimate_time_left, start_comparison
from migration_service.services.reconciliation.receipts import count_unproven, list_named_exceptions
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.setup.suppliers import KnownSupplier
from support import rows
from unit.services.undo.undo_rows import add_undo, add_undo_line


def _book(started: int = 0, *differing: str, **more: Any) -> dict[str, Any]:
    """A comparison that began so many microseconds after the accounts were created."""
    return {"started": started, "differing": differing, "lines": None} | more


def _batch(lines: str, started: int = 0, *differing: str, **more: Any) -> dict[str, Any]:
    return _book(started, *differing, lines=lines, **more)


@pytest.mark.parametrize(
    ("comparisons", "unproven", "not_compared", "differing"),
    [
        ([], 1, 2, 0),
        ([_book()], 0, 0, 0),
        ([_book(-1)], 1, 2, 0),
        ([_book(ended=False)], 1, 2, 0),
        ([_book(of="other")], 1, 2, 0),
        ([_batch("a")], 0, 1, 0),
        ([_batch("a", -1)], 1, 2, 0),
        ([_batch("b")], 1, 1, 0),
        ([_batch("a", of="other")], 1, 2, 0),
        ([_batch("a", 0, "a")], 1, 1, 1),
        ([_book(0, "a")], 1, 0, 0),
        ([_book(0, "b")], 0, 0, 0),
        ([_book(0, "a", accepted="a")], 0, 0, 0),
        ([_book(0, "a", accepted="b")], 1, 0, 0),
        ([_book(0, "a"), _batch("a", 0, accepted="a")], 1, 0, 0),
        ([_book(), _batch("a", 1, "a")], 1, 0, 1),
        ([_book(), _batch("a", 0, "a")], 1, 0, 0),
        ([_book(), _batch("a", 1, "a", ended=False)], 0, 0, 0),
        ([_book(), _batch("a", 1, "a", of="other")], 0, 0, 0),
        ([_book(0, "a"), _batch("a", 1, "a")], 1, 0, 0),
        ([_book(0, "a"), _batch("ab", 1, "a", "b")], 1, 0, 1),
    ],
)
def test_an_account_was_compared_by_what_read_it_after_it_was_created(
    session: Session,
    known: KnownSupplier,
    other: KnownSupplier,
    *,
    comparisons: list[dict[str, Any]],
    unproven: int,
    not_compared: int,
    differing: int,
) -> None:
    created_at = rows.read_now(session) - timedelta(hours=1)
    owners = {"own": known, "other": other}
    for owner in owners.values():
        for number in "ab":
            names = {"service_account_number": f"{owner.code} {number}"}
            rows.make_created(session, owner, number, account_created_at=created_at, **names)
    for it in comparisons:
        owner = owners[it.get("of", "own")]
        batch: Any = None if it["lines"] is None else rows.make_batch(session, owner)
        for line, number in enumerate(it["lines"] or (), 1):
            rows.make_line(session, batch, line, number, "STAGED")
        comparison = Comparison(
            id=new_id(),
            organisation_id=owner.organisation_id,
            import_supplier_id=owner.id,
            batch_id=batch and batch.id,
            started_at=created_at + timedelta(microseconds=it["started"]),
            finished_at=rows.read_now(session) if it.get("ended", True) else None,
            stage="accounts",
            items=0,
        )
        rows.add(session, comparison)
        for place, number in enumerate(it["differing"], 1):
            found = {"number": place, "external_account_number": number, "found": "{}"}
            rows.add(session, ComparedAccount(comparison_id=comparison.id, **found))
        for number in it.get("accepted", ""):
            said = {"problem": "DIFFERING", "number": 1, "external_account_number": number}
            said |= {"reason": "Known.", "accepted_by": "Ada"}
            rows.add(session, ReceiptException(comparison_id=comparison.id, **said))
    assert count_unproven(session, known, ["a"], 24) == unproven
    verdict = judge(session, known.id)
    assert (verdict.not_compared, verdict.differing) == (not_compared, differing)
    accepted = list_named_exceptions(session, known, ["a"])
    assert len(accepted) == sum(it.get("accepted") == "a" for it in comparisons)


def test_what_is_being_compared_is_compared_once_and_begins_again_to_be_full(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    batch_id = rows.make_batch(session, known).id
    book, of_batch, _ = made = [
        start_comparison(session, owner, it)[0]
        for owner, it in ((known, None), (known, batch_id), (other, None))
    ]
    assert start_comparison(session, known) == (book, False)
    full, is_new = start_comparison(session, known, is_full=True)
    assert is_new
    for is_full in (True, False):
        assert start_comparison(session, known, is_full=is_full) == (full, False)
    of_batch.finished_at = rows.read_now(session)
    again, is_new = start_comparison(session, known, batch_id, is_full=True)
    assert is_new
    left = session.scalars(select(Comparison.id)).all()
    assert sorted(left) == sorted(it.id for it in (*made[1:], full, again))


def test_what_was_undone_since_a_comparison_began_is_counted(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    now = rows.read_now(session)
    batch = rows.make_batch(session, known)
    rows.make_line(session, batch, 1, "1", "IMPORTED")
    for of in (None, batch.id):
        comparison, _ = start_comparison(session, known, of)
        comparison.finished_at = now
    later = now + timedelta(microseconds=1)
    undone = {"outcome": "REVERTED", "finished_at": later}
    for owner, number, values in (
        (known, "1", undone),
        (known, "2", undone),
        (known, "3", undone | {"finished_at": now}),
        (known, "4", {"outcome": "KEPT", "reasons": [], "finished_at": later}),
        (other, "1", undone),
    ):
        process = rows.make_process(session, owner, number, state="PENDING")
        add_undo_line(session, add_undo(session, owner), 1, process.id, number, **values)
    assert [judge(session, known.id, it).undone_since for it in (None, batch.id)] == [2, 1]


@pytest.mark.parametrize(("done", "hours"), [(0, None), (4, 3.0), (16, 0.0), (20, 0.0)])
def test_the_time_left_of_a_comparison_is_that_of_what_is_left(
    session: Session, done: int, hours: float | None
) -> None:
    begun = Comparison(items=16, done=done, started_at=datetime.now(UTC) - timedelta(hours=1))
    left = estimate_time_left(session, begun)
    assert (left and round(left / 3_600, 1)) == hours
