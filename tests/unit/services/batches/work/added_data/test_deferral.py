"""When a chunk with deferred lines is due."""

from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service.models import BatchChunk, OperationsTeam
from migration_service.services.batches.work.added_data.deferral import IS_DUE
from support.factories import Customer
from unit.services.batches.batch_rows import add_chunk, make_batch, seconds


def _is_due(session: Session, chunk: BatchChunk) -> bool:
    joined = "FROM batch_chunk JOIN batch ON batch.id = batch_chunk.batch_id WHERE batch_id = :id"
    return bool(session.execute(text(f"SELECT {IS_DUE} {joined}"), {"id": chunk.batch_id}).scalar_one())


def _deferred(session: Session, customer: Customer, **values: Any) -> BatchChunk:
    """Return a chunk that was dispatched a minute ago and is not due for another one."""
    given = {"dispatched_at": func.now() - seconds(60), "not_before": func.now() + seconds(60)} | values
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
    team: dict[str, Any] = {"mode": "import", "operations_team_id": _team_of(session, customer)}

    def end(owner: Customer, ago: int, **values: Any) -> None:
        make_batch(session, owner, finished_at=func.now() - seconds(ago), **values)

    end(other, 30, **team)
    end(customer, 30, mode="validate")
    end(customer, 30, **team | {"mode": "dry-run"})
    end(customer, 30, mode="import", kind="notes")
    end(customer, 61, **team)
    make_batch(session, customer, **team)
    assert not _is_due(session, chunk)
    end(customer, 59, **team)
    end(customer, 90, **team)
    assert _is_due(session, chunk)


def _team_of(session: Session, customer: Customer) -> int:
    return session.scalars(
        select(OperationsTeam.id).where(OperationsTeam.name == customer.operations_team)
    ).one()
