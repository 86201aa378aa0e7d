"""Which accounts are still to come, and when the lines and chunks that wait for them go on."""

from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service.models import BatchChunk, BatchLine
from migration_service.services.batches.work.added_data import deferral
from support.factories import Customer
from support.rows import add_chunk, find_supplier, make_account, make_batch, make_line, make_process, team_of
from unit.services.batches.batch_rows import seconds


def test_an_account_is_to_come_if_its_import_has_begun_or_a_batch_has_yet_to_create_it(
    session: Session, customer: Customer, other: Customer
) -> None:
    for owner, number, state in (
        (customer, "begun", "IN_PROGRESS"),
        (customer, "staged", "PENDING"),
        (other, "another's", "IN_PROGRESS"),
        (customer, "created", "IN_PROGRESS"),
    ):
        process = make_process(session, owner, number, state=state)
    make_account(session, process, operations_team_id=team_of(customer))
    for owner, number, batch, line in (
        (customer, "on a line", {}, {}),
        (customer, "created", {}, {}),
        (other, "another's too", {}, {}),
        (customer, "only checked", {"mode": "validate"}, {}),
        (customer, "only tried", {"mode": "dry-run"}, {}),
        (customer, "over", {"finished_at": func.now()}, {}),
        (customer, "failed", {}, {"status": "FAILED"}),
        (customer, "of another kind", {"kind": "notes"}, {}),
        (customer, "of added data", {}, {"chunk_line": 1}),
    ):
        made = make_batch(session, owner, **{"mode": "import"} | batch)
        make_line(session, made, 1, number, **{"status": "PENDING"} | line)
    known = find_supplier(session, customer)
    numbers = session.scalars(select(BatchLine.external_account_number)).all()
    wanted = ["begun", "staged", "another's", "nobody", *map(str, numbers)]
    assert deferral.find_coming(session, known.id, wanted) == {"begun", "on a line"}
    assert deferral.find_coming(session, known.id, ["begun", "staged"]) == {"begun"}
    assert deferral.find_coming(session, known.id, []) == set()


@pytest.fixture
def waiting(session: Session, customer: Customer) -> BatchChunk:
    """A chunk that has waited for a minute with lines of A and B, beside another one with a line of A.

    The account of A is not to come any more.
    """
    make_process(session, customer, "B", state="IN_PROGRESS")
    batch = make_batch(session, customer, mode="import", kind="notes")
    since = {"deferred_since": func.now() - seconds(60)}
    chunk, another = (add_chunk(session, batch, line, **since) for line in (1, 11))
    for line, number, status, of in (
        (1, "A", "DEFERRED", chunk),
        (2, "B", "DEFERRED", chunk),
        (3, "C", "ADDED", chunk),
        (11, "A", "DEFERRED", another),
        (12, "D", "DEFERRED", another),
    ):
        make_line(session, batch, line, number, status, chunk_line=of.first_line, warnings=["w"])
    return chunk


def _pending(session: Session) -> list[int]:
    """Return the lines that are pending. They have no warnings, and all others have theirs."""
    lines = session.scalars(select(BatchLine).execution_options(populate_existing=True)).all()
    assert all(bool(it.warnings) != (it.status == "PENDING") for it in lines)
    return sorted(it.line_number for it in lines if it.status == "PENDING")


def test_lines_are_pending_again_once_their_account_is_not_to_come_or_the_time_is_up(
    session: Session, customer: Customer, waiting: BatchChunk
) -> None:
    known = find_supplier(session, customer)
    assert deferral.wake_lines(session, known.id, waiting, 90) == deferral.Woken(1, is_late=False)
    assert _pending(session) == [1]
    assert deferral.wake_lines(session, known.id, waiting, 90) == deferral.Woken(0, is_late=False)
    assert deferral.wake_lines(session, known.id, waiting, 59) == deferral.Woken(1, is_late=True)
    assert _pending(session) == [1, 2]


def test_accounts_with_deferred_lines_are_those_of_the_chunk(session: Session, waiting: BatchChunk) -> None:
    assert deferral.find_deferred(session, waiting) == {"A", "B"}
    assert deferral.find_deferred(session, waiting, ["B", "C", "D"]) == {"B"}
    waiting.deferred_since = None
    assert deferral.find_deferred(session, waiting) == set()


def _is_due(session: Session, chunk: BatchChunk) -> bool:
    joined = "FROM batch_chunk JOIN batch ON batch.id = batch_chunk.batch_id WHERE batch_id = :id"
    return bool(
        session.execute(text(f"SELECT {deferral.IS_DUE} {joined}"), {"id": chunk.batch_id}).scalar_one()
    )


def _deferred(session: Session, customer: Customer, **values: Any) -> BatchChunk:
    """Return a chunk that was dispatched a minute ago and is not due for another one."""
    given = {
        "dispatched_at": func.now() - seconds(60),
        "not_before": func.now() + seconds(60),
    } | values
    return add_chunk(session, make_batch(session, customer, mode="import", kind="notes"), **given)


@pytest.mark.parametrize(("later", "is_due"), [(60, False), (0, True), (-60, True), (None, True)])
def test_a_chunk_is_due_when_its_time_has_come(
    session: Session, customer: Customer, later: int | None, *, is_due: bool
) -> None:
    not_before = None if later is None else func.now() + seconds(later)
    assert _is_due(session, _deferred(session, customer, not_before=not_before)) is is_due


def test_a_chunk_is_due_when_an_import_batch_of_its_supplier_has_ended_since(
    session: Session, customer: Customer, other: Customer
) -> None:
    chunk = _deferred(session, customer)

    def end(owner: Customer, ago: int, **values: Any) -> None:
        make_batch(session, owner, finished_at=func.now() - seconds(ago), **values)

    end(other, 30, mode="import")
    end(customer, 30, mode="validate")
    end(customer, 30, mode="dry-run")
    end(customer, 30, mode="import", kind="notes")
    end(customer, 61, mode="import")
    make_batch(session, customer, mode="import")
    assert not _is_due(session, chunk)
    end(customer, 59, mode="import")
    end(customer, 90, mode="import")
    assert _is_due(session, chunk)
