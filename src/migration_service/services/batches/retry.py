"""Retrying failed lines: those that may pass now, or all, or those selected by a filter."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Integer, Text, bindparam, func, text
from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.db.cancelling import allow_minutes
from migration_service.models import Batch, ImportSupplier
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.control import take_over
from migration_service.services.batches.intake.upload import validated_under
from migration_service.services.batches.results.counts import LINES_OF_CHUNK, count_lines, recount
from migration_service.services.batches.results.line_results import HAS_FINDING, ResultFilter
from migration_service.services.batches.states import REOPEN, change_batch
from migration_service.services.batches.undo_guards import require_no_undo
from migration_service.states import BatchState, ChunkState, LineStatus

#: Errors that are not about the content of a line. A line without other errors may pass on a retry.
MAY_PASS = (
    errors.AccountCreationFailedError.code,
    errors.AccountImportInProgressError.code,
    errors.AccountNotFoundInBodyError.code,
    errors.AddedDataDoesNotFitError.code,
    errors.NewerVersionRefusedError.code,
    errors.PaymentVendorNotFoundError.code,
    errors.PaymentVendorUnavailableError.code,
    errors.PaymentVendorUnreachableError.code,
)
_ALL = ResultFilter()


@dataclass(frozen=True, slots=True)
class Retried:
    """The number of failed lines that are pending again, and of those left as they are.

    Those are left because of their content or because of the filter.
    """

    retried: int
    left: int


def retry_failed(
    session: Session, batch: Batch, wanted: ResultFilter = _ALL, *, everything: bool = False
) -> Retried:
    """Make the FAILED lines that may pass now pending again.

    Raise BatchStateError if the batch was cancelled, has no lines, or is being undone.

    A line may pass if it failed because of infrastructure or the state of its account, or if the rules or the
    profile have changed since, but not if the database refused one of its values. With `everything`, lines
    that failed because of their content are retried as well. Lines that were too long to keep, or repeat the
    account of an earlier line, are never retried. `wanted` limits the retry to lines with its code at its
    path, or to a single line.
    """
    require_retryable(session, batch)
    allow_minutes(session)
    values = _values(session, batch, wanted, everything=everything)
    lines = session.scalars(_RETRY, values).all()
    recount(session, batch.id, sorted(set(lines)))
    if wanted == _ALL:
        # The other lines may still pass under the current rules.
        batch.validated_under = _validated_now(session, batch)
    if lines:
        batch.runs_since = func.clock_timestamp()
    if lines and batch.state in REOPEN.sources:
        session.flush()
        change_batch(session, batch, REOPEN)
        batch.started_at = None
    take_over(session, batch)
    details = {"lines": len(lines), "code": wanted.code, "path": wanted.path, "line": wanted.line}
    told = {name: value for name, value in details.items() if value is not None}
    owner = batch.organisation_id
    record(session, AuditAction.BATCH_RETRIED, "batch", batch.id, organisation_id=owner, details=told)
    failed = count_lines(session, [batch.id])[batch.id].get(LineStatus.FAILED, 0)
    return Retried(len(lines), failed)


def require_retryable(session: Session, batch: Batch) -> None:
    """Raise BatchStateError if the batch was cancelled, has no lines, or is being undone."""
    require_no_undo(session, batch)
    if batch.state == BatchState.CANCELLED:
        raise errors.BatchStateError("The batch was cancelled.")
    if batch.lines_removed_at:
        raise errors.BatchStateError("The lines of the batch are no longer kept.")


@dataclass(frozen=True, slots=True)
class Retryable:
    """The number of lines that `retry_failed` would retry, without and with `everything`."""

    may_pass: int
    everything: int


def count_retryable(session: Session, batch: Batch, wanted: ResultFilter = _ALL) -> Retryable:
    """Return the number of lines that `retry_failed` would retry."""
    allow_minutes(session)
    row = session.execute(_RETRYABLE, _values(session, batch, wanted, everything=False)).one()
    return Retryable(row.may_pass, row.everything)


def _values(session: Session, batch: Batch, wanted: ResultFilter, *, everything: bool) -> dict[str, Any]:
    changed = batch.validated_under != _validated_now(session, batch)
    codes = None if everything or changed else list(MAY_PASS)
    picked = {"code": wanted.code, "path": wanted.pattern, "line": wanted.line}
    return {"batch_id": batch.id, "codes": codes, **picked}


def _validated_now(session: Session, batch: Batch) -> str:
    supplier = session.get_one(ImportSupplier, batch.import_supplier_id)
    return validated_under(batch.profile, supplier.profile)


# Only chunks with failed lines and the code are read.
_FAILED_CHUNKS = f"""
    batch_chunk.batch_id = :batch_id AND batch_chunk.state = '{ChunkState.DONE}'
    AND batch_chunk.counts ? '{LineStatus.FAILED}'
    AND (:code IS NULL OR batch_chunk.error_counts ? :code OR batch_chunk.warning_counts ? :code)
    AND (:line IS NULL OR batch_chunk.by_account OR :line BETWEEN first_line AND last_line)
"""
_IS_CANDIDATE = f"""
    batch_line.status = '{LineStatus.FAILED}'
    AND (batch_line.payload IS NOT NULL OR batch_line.account_import_process_id IS NOT NULL)
    AND NOT batch_line.errors @> '[{{"code": "{errors.DuplicateLineError.code}"}}]'
    AND NOT batch_line.errors @> '[{{"code": "{errors.ConflictingLinesError.code}"}}]'
    AND (:line IS NULL OR batch_line.line_number = :line)
    AND (:code IS NULL AND :path IS NULL OR {HAS_FINDING})
"""
_MAY_SUCCEED = """
    (CAST(:codes AS text[]) IS NULL OR NOT EXISTS (
        SELECT FROM jsonb_array_elements(batch_line.errors) AS error WHERE error ->> 'code' <> ALL (:codes)))
"""
_TYPES = (
    bindparam("codes", type_=ARRAY(Text)),
    bindparam("code", type_=Text),
    bindparam("path", type_=Text),
    bindparam("line", type_=Integer),
)

# The chunks are reopened, so that their counts stay right. Chunks that a worker holds are left out. Returns
# the first line of the chunk of each line.
_RETRY = text(f"""
    WITH chunk AS MATERIALIZED (
        SELECT batch_id, first_line, last_line, by_account FROM batch_chunk WHERE {_FAILED_CHUNKS} FOR UPDATE
    ), own AS (
        SELECT batch_chunk.first_line, own.line_number
        FROM chunk AS batch_chunk CROSS JOIN LATERAL {LINES_OF_CHUNK} AS own
    )
    UPDATE batch_line SET status = '{LineStatus.PENDING}', errors = NULL, warnings = NULL,
        staging_result = NULL
    FROM own
    WHERE batch_line.batch_id = :batch_id AND batch_line.line_number = own.line_number
      AND {_IS_CANDIDATE} AND {_MAY_SUCCEED}
    RETURNING own.first_line
""").bindparams(*_TYPES)

_RETRYABLE = text(f"""
    SELECT count(*) FILTER (WHERE {_MAY_SUCCEED}) AS may_pass, count(*) AS everything
    FROM batch_chunk CROSS JOIN LATERAL {LINES_OF_CHUNK} AS batch_line
    WHERE {_FAILED_CHUNKS} AND {_IS_CANDIDATE}
""").bindparams(*_TYPES)
