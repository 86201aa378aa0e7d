"""Work in progress and its duration: attempts of requests, and chunks of batches."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Double, cast, func, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import AccountImportProcess, Attempt, Batch, BatchChunk, ImportSupplier
from migration_service.states import ImportState


def list_running_requests(
    session: Session, *, import_supplier_ids: Collection[int] | None, limit: int = 100
) -> Sequence[Any]:
    """Return the attempts of single requests in progress, oldest first, of all suppliers if None."""
    process = AccountImportProcess
    return session.execute(
        select(
            ImportSupplier.code.label("import_supplier"),
            process.external_account_number,
            Attempt.id.label("attempt_id"),
            Attempt.dry_run,
            process.tries,
            _age(Attempt.created_at.expression).label("seconds"),
        )
        .join(Attempt, Attempt.id == process.attempt_id)
        .join(ImportSupplier, ImportSupplier.id == process.import_supplier_id)
        .where(process.state == ImportState.IN_PROGRESS, _among(import_supplier_ids))
        .order_by(Attempt.created_at)
        .limit(limit)
    ).all()


def list_running_chunks(
    session: Session, *, import_supplier_ids: Collection[int] | None, limit: int = 100
) -> Sequence[Any]:
    """Return the chunks that workers are processing, oldest first. None stands for all suppliers."""
    return session.execute(
        select(
            ImportSupplier.code.label("import_supplier"),
            Batch.id.label("batch_id"),
            func.coalesce(Batch.name, Batch.file_name).label("batch_name"),
            BatchChunk.first_line,
            BatchChunk.last_line,
            func.cardinality(BatchChunk.attempts).label("attempts"),
            BatchChunk.tries,
            _age(BatchChunk.dispatched_at.expression).label("seconds"),
        )
        .join(Batch, Batch.id == BatchChunk.batch_id)
        .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
        .where(BatchChunk.attempts.is_not(None), _among(import_supplier_ids))
        .order_by(BatchChunk.dispatched_at)
        .limit(limit)
    ).all()


def _age(since: ColumnElement[Any]) -> ColumnElement[float]:
    return cast(func.coalesce(func.extract("epoch", func.now() - since), 0), Double)


def _among(import_supplier_ids: Collection[int] | None) -> ColumnElement[bool]:
    if import_supplier_ids is None:
        return ImportSupplier.id.is_not(None)
    return one_of(ImportSupplier.id.expression, import_supplier_ids)
