"""Rows of batches, as tests need them."""

from typing import Any

from sqlalchemy import func
from sqlalchemy.orm import Session

from factories import Customer
from migration_service.db.base import new_id
from migration_service.models import Batch, BatchChunk, BatchLine
from migration_service.services.setup.suppliers import get_import_supplier

#: For a difference of times, as `func.now() - seconds(5)`.
seconds: Any = lambda number: func.make_interval(0, 0, 0, 0, 0, 0, number)  # noqa: E731


def make_batch(session: Session, customer: Customer, **values: Any) -> Batch:
    """Insert a batch of the customer's supplier, without lines."""
    supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
    given = {"mode": "validate", "source": "upload"} | values
    batch = Batch(
        id=new_id(), organisation_id=customer.organisation_id, import_supplier_id=supplier.id, **given
    )
    session.add(batch)
    session.flush()
    session.refresh(batch)
    return batch


def add_chunk(
    session: Session, batch: Batch, first_line: int = 1, last_line: int = 9, **values: Any
) -> BatchChunk:
    """Insert a chunk, without lines."""
    chunk = BatchChunk(batch_id=batch.id, first_line=first_line, last_line=last_line, **values)
    session.add(chunk)
    session.flush()
    session.refresh(chunk)
    return chunk


def add_lines(session: Session, batch: Batch, *statuses: str, first: int = 1, **values: Any) -> None:
    """Insert lines with these statuses, numbered from `first`."""
    for number, status in enumerate(statuses, first):
        session.add(BatchLine(batch_id=batch.id, line_number=number, status=status, **values))
    session.flush()
