"""Work in progress and its duration: attempts of requests, and chunks of batches."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import AccountImportProcess, Attempt, Batch, BatchChunk, ImportSupplier
from migration_service.states import ImportState


@dataclass(frozen=True, slots=True)
class RunningRequest:
    """An attempt of a single request that has not ended."""

    import_supplier: str
    external_account_number: str
    attempt_id: UUID
    dry_run: bool
    tries: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunningChunk:
    """A chunk of a batch that a worker is processing."""

    import_supplier: str
    batch_id: UUID
    batch_name: str | None
    first_line: int
    last_line: int
    attempts: int
    tries: int
    seconds: float


def list_running_requests(
    session: Session, *, import_supplier_ids: Collection[int] | None, limit: int = 100
) -> list[RunningRequest]:
    """Return the attempts of single requests in progress, oldest first, of all suppliers if None."""
    process = AccountImportProcess
    rows = session.execute(
        select(
            ImportSupplier.code,
            process.external_account_number,
            Attempt.id,
            Attempt.dry_run,
            process.tries,
            _age(Attempt.created_at.expression),
        )
        .join(Attempt, Attempt.id == process.attempt_id)
        .join(ImportSupplier, ImportSupplier.id == process.import_supplier_id)
        .where(process.state == ImportState.IN_PROGRESS, _among(import_supplier_ids))
        .order_by(Attempt.created_at)
        .limit(limit)
    )
    return [
        RunningRequest(code, number, attempt_id, dry_run, tries, float(seconds))
        for code, number, attempt_id, dry_run, tries, seconds in rows
    ]


def list_running_chunks(
    session: Session, *, import_supplier_ids: Collection[int] | None, limit: int = 100
) -> list[RunningChunk]:
    """Return the chunks that workers are processing, oldest first. None stands for all suppliers."""
    rows = session.execute(
        select(
            ImportSupplier.code,
            Batch.id,
            func.coalesce(Batch.name, Batch.file_name),
            BatchChunk.first_line,
            BatchChunk.last_line,
            func.cardinality(BatchChunk.attempts),
            BatchChunk.tries,
            _age(BatchChunk.dispatched_at.expression),
        )
        .join(Batch, Batch.id == BatchChunk.batch_id)
        .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
        .where(BatchChunk.attempts.is_not(None), _among(import_supplier_ids))
        .order_by(BatchChunk.dispatched_at)
        .limit(limit)
    )
    return [
        RunningChunk(code, batch_id, name, first, last, attempts, tries, float(seconds))
        for code, batch_id, name, first, last, attempts, tries, seconds in rows
    ]


def _age(since: ColumnElement[Any]) -> ColumnElement[float]:
    return func.coalesce(func.extract("epoch", func.now() - since), 0)


def _among(import_supplier_ids: Collection[int] | None) -> ColumnElement[bool]:
    if import_supplier_ids is None:
        return ImportSupplier.id.is_not(None)
    return one_of(ImportSupplier.id.expression, import_supplier_ids)
