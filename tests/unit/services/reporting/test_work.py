"""The work in progress, by supplier, and how long it has taken."""

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.services.reporting.work import (
    RunningChunk,
    RunningRequest,
    list_running_chunks,
    list_running_requests,
)
from migration_service.services.setup.suppliers import KnownSupplier
from unit.services.reporting.rows import (
    make_attempt,
    make_batch,
    make_chunk,
    make_process,
    read_now,
)


@pytest.fixture
def requests(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[RunningRequest]:
    """Three attempts in progress, the oldest first, and one of an account that is pending again."""
    made = []
    for supplier, number, state, dry_run, tries, age in (
        (known, "1", "IN_PROGRESS", False, 1, 10),
        (known, "2", "IN_PROGRESS", True, 2, 30),
        (other, "3", "IN_PROGRESS", False, 3, 20),
        (known, "4", "PENDING", False, 4, 40),
    ):
        process = make_process(session, supplier, number, state=state, tries=tries)
        at = read_now(session) - timedelta(seconds=age)
        attempt = make_attempt(session, supplier, process, dry_run=dry_run, created_at=at)
        if state == "IN_PROGRESS":
            made.append(RunningRequest(supplier.code, number, attempt.id, dry_run, tries, float(age)))
    return sorted(made, key=lambda it: -it.seconds)


def test_running_requests_are_those_of_the_suppliers(
    session: Session, known: KnownSupplier, other: KnownSupplier, requests: list[RunningRequest]
) -> None:
    first, second, third = requests
    assert list_running_requests(session, import_supplier_ids=None) == requests
    assert list_running_requests(session, import_supplier_ids=None, limit=2) == [first, second]
    assert list_running_requests(session, import_supplier_ids=[known.id]) == [first, third]
    assert list_running_requests(session, import_supplier_ids=[known.id, other.id]) == requests
    assert list_running_requests(session, import_supplier_ids=[]) == []


def test_running_chunks_are_those_of_the_suppliers(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    made = []
    for supplier, names, attempts, tries, age in (
        (known, {"name": "night", "file_name": "a.ndjson"}, 1, 5, 10),
        (known, {"file_name": "b.ndjson"}, 2, 6, 30),
        (other, {}, 3, 7, 20),
        (known, {}, None, 8, 40),
    ):
        batch = make_batch(session, supplier, **names)
        at = read_now(session) - timedelta(seconds=age)
        ids = None if attempts is None else [new_id() for _ in range(attempts)]
        make_chunk(session, batch, 4, last_line=7, attempts=ids, tries=tries, dispatched_at=at)
        if attempts is not None:
            name = names.get("name") or names.get("file_name")
            chunk = RunningChunk(supplier.code, batch.id, name, 4, 7, attempts, tries, float(age))
            made.append(chunk)
    made.sort(key=lambda it: -it.seconds)
    first, second, third = made
    assert list_running_chunks(session, import_supplier_ids=None) == made
    assert list_running_chunks(session, import_supplier_ids=None, limit=2) == [first, second]
    assert list_running_chunks(session, import_supplier_ids=[known.id]) == [first, third]
    assert list_running_chunks(session, import_supplier_ids=[]) == []
