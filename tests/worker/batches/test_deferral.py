"""Which accounts are still to come, and which deferred lines are tried again."""

from typing import Any
from uuid import UUID

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch, BatchChunk, BatchLine, ImportSupplier
from migration_service.services.batches.work.added_data.deferral import (
    Woken,
    find_coming,
    find_deferred,
    wake_lines,
)
from migration_service.services.processing.execution import perform_attempt
from migration_service.states import LineStatus
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient

_A_WEEK = 7 * 24 * 3600.0


@pytest.fixture
def neighbour(app: Flask, sessions: sessionmaker[Session], worker_resources: WorkerResources) -> BatchClient:
    return BatchClient(SupplierClient.create(app, sessions), worker_resources)


def _supplier_id(batches: BatchClient) -> int:
    with batches.supplier.Session() as session:
        found = session.scalar(select(ImportSupplier.id).where(ImportSupplier.code == batches.supplier.code))
    assert found
    return found


def _coming(batches: BatchClient, *numbers: str) -> set[str]:
    with batches.supplier.Session() as session:
        return find_coming(session, _supplier_id(batches), numbers)


def _account(batches: BatchClient, number: str) -> dict[str, Any]:
    (account,) = batches.supplier.accounts()
    return account | {"external_account_number": number}


def _begin(batches: BatchClient, number: str) -> None:
    """Begin the import of an account."""
    assert batches.supplier.stage(_account(batches, number)).status_code in (200, 201)
    assert batches.supplier.process(number).status_code == 202


def _end(batches: BatchClient, number: str) -> None:
    """Create the account whose import has begun."""
    assert perform_attempt(batches.supplier.Session, batches.supplier.current_attempt(number))


def _paused(batches: BatchClient, mode: str = "import", *numbers: str) -> str:
    batch_id = batches.start([_account(batches, number) for number in numbers], mode)
    assert batches.change(batch_id, "pause").status_code == 200
    return batch_id


def _defer(batches: BatchClient, *numbers: str) -> UUID:
    """Run a batch with a note for each of these accounts, whose lines are deferred. Return its id."""
    lines = [batches.line(number, notes=[{"body": "a"}]) for number in numbers]
    report = batches.run(lines, kind="notes")
    assert report["counts"]["DEFERRED"] == len(numbers)
    return UUID(report["batch_id"])


def _chunk(session: Session, batch_id: UUID) -> BatchChunk:
    return session.scalars(select(BatchChunk).where(BatchChunk.batch_id == batch_id)).one()


def _wake(batches: BatchClient, batch_id: UUID, seconds: float = _A_WEEK) -> Woken:
    with batches.supplier.Session.begin() as session:
        return wake_lines(session, _supplier_id(batches), _chunk(session, batch_id), seconds)


def _lines(batches: BatchClient, batch_id: UUID) -> dict[str, tuple[str, bool]]:
    """Return the status of each line, and whether it has warnings, by the number of its account."""
    with batches.supplier.Session() as session:
        rows = session.scalars(select(BatchLine).where(BatchLine.batch_id == batch_id))
        return {str(it.external_account_number): (it.status, bool(it.warnings)) for it in rows}


def test_an_account_whose_import_has_begun_is_still_to_come_until_it_exists(batches: BatchClient) -> None:
    _begin(batches, "A")
    _begin(batches, "B")
    assert batches.supplier.stage(_account(batches, "staged only")).status_code == 201
    assert _coming(batches, "A", "staged only", "nobody") == {"A"}
    _defer(batches, "A")  # which is added data for it, and no import
    _end(batches, "A")
    assert _coming(batches, "A", "B") == {"B"}


def test_an_account_on_a_pending_line_of_an_import_batch_is_still_to_come_unless_it_exists(
    batches: BatchClient,
) -> None:
    _paused(batches, "import", "A", "B")
    assert _coming(batches, "A", "nobody") == {"A"}
    _begin(batches, "A")
    _end(batches, "A")
    assert _coming(batches, "A", "B") == {"B"}


@pytest.mark.parametrize(
    ("mode", "change"),
    [
        pytest.param("validate", None, id="only checked"),
        pytest.param("dry-run", None, id="only tried"),
        pytest.param("import", update(BatchLine).values(status=LineStatus.FAILED), id="failed"),
        pytest.param("import", update(BatchLine).values(chunk_line=1), id="of another kind"),
        pytest.param("import", update(Batch).values(finished_at=func.now()), id="over"),
    ],
)
def test_an_account_on_any_other_line_is_not_to_come(batches: BatchClient, mode: str, change: Any) -> None:
    _paused(batches, mode, "A")
    if change is not None:
        with batches.supplier.Session.begin() as session:
            session.execute(change)
    assert _coming(batches, "A") == set()


def test_an_account_that_another_supplier_imports_is_not_to_come(
    batches: BatchClient, neighbour: BatchClient
) -> None:
    _begin(neighbour, "A")
    _paused(neighbour, "import", "B")
    _paused(batches, "import", "C")
    assert _coming(batches, "A", "B") == set()
    assert _coming(neighbour, "A", "B", "C") == {"A", "B"}


def test_lines_are_pending_again_once_their_account_is_no_longer_to_come(batches: BatchClient) -> None:
    for number in ("A", "B"):
        _begin(batches, number)
    batch_id, other = _defer(batches, "A", "B"), _defer(batches, "A")
    assert _wake(batches, batch_id) == Woken(0, is_late=False)
    _end(batches, "A")
    assert _wake(batches, batch_id) == Woken(1, is_late=False)
    assert _lines(batches, batch_id) == {"A": ("PENDING", False), "B": ("DEFERRED", True)}
    assert _lines(batches, other) == {"A": ("DEFERRED", True)}


def test_all_lines_of_the_chunk_are_pending_again_once_the_time_is_up(batches: BatchClient) -> None:
    for number in ("A", "B"):
        _begin(batches, number)
    batch_id = _defer(batches, "A", "B")
    with batches.supplier.Session.begin() as session:
        session.execute(
            update(BatchChunk).values(
                deferred_since=BatchChunk.deferred_since - func.make_interval(0, 0, 0, 0, 0, 0, 60)
            )
        )
        # As if it belonged to another chunk.
        session.execute(update(BatchLine).where(BatchLine.line_number == 2).values(chunk_line=2))
    assert _wake(batches, batch_id, 90) == Woken(0, is_late=False)
    assert _wake(batches, batch_id, 60) == Woken(1, is_late=True)
    assert _lines(batches, batch_id) == {"A": ("PENDING", False), "B": ("DEFERRED", True)}


def test_accounts_with_deferred_lines_are_those_of_the_chunk(batches: BatchClient) -> None:
    for number in ("A", "B", "C", "D"):
        _begin(batches, number)
    batch_id, _ = _defer(batches, "A", "B", "C"), _defer(batches, "D")
    with batches.supplier.Session.begin() as session:
        of_b, of_c = (BatchLine.external_account_number == number for number in "BC")
        session.execute(update(BatchLine).where(of_b).values(chunk_line=2))
        session.execute(update(BatchLine).where(of_c).values(status=LineStatus.ADDED))
        chunk = _chunk(session, batch_id)
        assert find_deferred(session, chunk, ["A", "B", "C", "D"]) == {"A"}
        assert find_deferred(session, chunk, ["B", "C", "D"]) == set()
