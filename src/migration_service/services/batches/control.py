"""Reading, pausing, resuming and cancelling batches. The table of changes is in `states`."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.errors import (
    BatchNotFoundError,
    BatchStateError,
)
from migration_service.models import ApiKey, Batch, ImportSupplier, OperationsTeam
from migration_service.origin import current_origin
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.error_thresholds import count_codes, measure, stored_brake
from migration_service.services.batches.intake.control_totals import report_control_totals
from migration_service.services.batches.results.activity import read_activity
from migration_service.services.batches.results.counts import get_progress
from migration_service.services.batches.results.reverted import Reverted, count_created, count_reverted
from migration_service.services.batches.results.waiting import read_waiting
from migration_service.services.batches.states import CANCEL, PAUSE, RESUME, change_batch
from migration_service.services.batches.undo_guards import require_no_undo
from migration_service.services.setup.suppliers import KnownSupplier, require_supplier_allowed
from migration_service.states import BatchCondition, BatchState, LineStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A batch and its progress. The names are those of the interface."""

    batch_id: UUID
    import_supplier: str
    operations_team_name: str | None
    #: The batch's name, if it has one, and the name of the uploaded file.
    name: str | None
    file_name: str | None
    #: The SHA-256 (in hexadecimal) and the size of the file as it was sent.
    file_sha256: str | None
    file_bytes: int | None
    #: The kind of data in its lines.
    kind: str
    mode: str
    #: Arguments of the single endpoint for transactions, and include_older_versions for pending accounts.
    options: dict[str, bool]
    #: The profile used to validate the lines, or None for the supplier's profile.
    profile: str | None
    #: When the supplier extracted the accounts, or None if it did not say.
    extracted_at: datetime | None
    #: The number of pending accounts left out because a newer version of them was refused.
    older_versions: int | None
    source: str
    state: str
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    #: When the lines were removed at the end of their retention period.
    lines_removed_at: datetime | None
    lines: int
    #: The number of lines by status. Every status is present.
    counts: dict[str, int]
    #: The number of accounts of its lines that undos have reverted, and of those that no longer exist.
    reverted: int = 0
    undone: int = 0
    #: The number of lines with an error, by code. This and what follows is only in the report of a single
    #: batch.
    error_counts: dict[str, int] | None = None
    warning_counts: dict[str, int] | None = None
    #: The number of lines by the effect of staging their payload.
    staging_counts: dict[str, int] | None = None
    #: Lines per second, recently or on average. None if unknown.
    rate: float | None = None
    #: Estimated seconds left: probable, at best and at worst. None if the batch is not running, makes no
    #: progress, or has not run long enough for an estimate.
    time_left: float | None = None
    time_left_low: float | None = None
    time_left_high: float | None = None
    #: The end of its wave's window, after which no line is started, or None if there is no window.
    runs_until: datetime | None = None
    #: The reason for slow or no progress. None if it makes progress, or is not running.
    condition: BatchCondition | None = None
    #: If all open lines are deferred: when they are retried, and the vendors that the first of them wait for.
    next_try_at: datetime | None = None
    waits_for_vendors: list[str] | None = None
    #: The error threshold, with the current numbers of lines and errors that it counts, or None if there is
    #: none.
    brake: dict[str, Any] | None = None
    #: The number of control totals that differ from the file. None if the supplier gave none.
    control_totals_differing: int | None = None
    #: Whether no total differs and the whole file could be read. None if the supplier gave none.
    control_totals_as_given: bool | None = None


def get_batch(session: Session, batch_id: str, *, organisation_id: int | None) -> Batch:
    """Return the organisation's batch, or any batch if the organisation is None. Raise BatchNotFoundError."""
    try:
        wanted = UUID(batch_id)
    except ValueError:
        raise BatchNotFoundError(found=batch_id) from None
    batch = session.get(Batch, wanted, populate_existing=True)
    if batch is None or organisation_id not in (None, batch.organisation_id):
        raise BatchNotFoundError(found=batch_id)
    if organisation_id is not None:
        supplier = session.get_one(ImportSupplier, batch.import_supplier_id)
        require_supplier_allowed(supplier.id, supplier.code)
    return batch


def get_batch_with_lines(session: Session, batch_id: str, *, organisation_id: int | None) -> Batch:
    """Return the batch as `get_batch` does. Raise BatchStateError if its lines are no longer kept."""
    batch = get_batch(session, batch_id, organisation_id=organisation_id)
    if batch.lines_removed_at:
        raise BatchStateError("The lines of the batch are no longer kept.")
    return batch


def get_batch_to_reconcile(session: Session, batch_id: str | None, supplier: KnownSupplier) -> UUID | None:
    """Return the id of the supplier's batch, or None if `batch_id` is None.

    Raise BatchNotFoundError if it does not exist, and BatchStateError if its lines are no longer kept.
    """
    if batch_id is None:
        return None
    batch = get_batch(session, batch_id, organisation_id=supplier.organisation_id)
    if batch.import_supplier_id != supplier.id:
        raise BatchNotFoundError(found=batch_id)
    return get_batch_with_lines(session, batch_id, organisation_id=supplier.organisation_id).id


def report_batch(session: Session, batch: Batch) -> BatchReport:
    """Return the full report of a batch."""
    supplier, team = session.execute(
        select(ImportSupplier.code, OperationsTeam.name)
        .select_from(ImportSupplier)
        .outerjoin(OperationsTeam, OperationsTeam.id == batch.operations_team_id)
        .where(ImportSupplier.id == batch.import_supplier_id)
    ).one()
    progress = get_progress(session, batch)
    activity = read_activity(session, [batch.id]).get(batch.id)
    condition = activity.condition if activity else None
    waiting = None
    if progress.counts.get(LineStatus.DEFERRED) and not progress.counts.get(LineStatus.PENDING):
        waiting = read_waiting(session, [batch.id]).get(batch.id)
    if waiting:
        condition = BatchCondition.DEFERRED
    stands_still = condition in (BatchCondition.STALLED, BatchCondition.DEFERRED)
    pace = None if stands_still else progress.pace
    control = report_control_totals(batch)
    reverted = count_reverted(session, [batch.id]) if count_created(progress.counts) else {}
    return BatchReport(
        **fields_of(batch, supplier, team, progress.counts, reverted.get(batch.id)),
        error_counts=progress.error_counts,
        warning_counts=progress.warning_counts,
        staging_counts=progress.staging_counts,
        rate=progress.rate and round(progress.rate, 1),
        time_left=round(pace.left, 1) if pace else None,
        time_left_low=round(pace.low, 1) if pace else None,
        time_left_high=round(pace.high, 1) if pace else None,
        runs_until=batch.runs_until if batch.state == BatchState.RUNNING else None,
        condition=condition,
        next_try_at=waiting.next_try_at if waiting else None,
        waits_for_vendors=waiting.vendors if waiting else None,
        brake=_report_brake(session, batch),
        control_totals_differing=control.differing,
        control_totals_as_given=control.as_given,
    )


def pause_batch(session: Session, batch: Batch) -> None:
    """Start no more lines until the batch is resumed. Raise BatchStateError if it is not running."""
    change_batch(session, batch, PAUSE)
    _record(session, AuditAction.BATCH_PAUSED, batch)


def resume_batch(session: Session, batch: Batch) -> None:
    """Continue a batch that is PAUSED or STOPPED.

    Raise BatchStateError if it is in another state, or if its accounts are being undone.
    """
    require_no_undo(session, batch)
    change_batch(session, batch, RESUME)
    take_over(session, batch)
    _record(session, AuditAction.BATCH_RESUMED, batch)


def cancel_batch(session: Session, batch: Batch) -> None:
    """Cancel the batch permanently. Finished lines are kept. Raise BatchStateError if the batch has ended."""
    change_batch(session, batch, CANCEL)
    _record(session, AuditAction.BATCH_CANCELLED, batch)


def _report_brake(session: Session, batch: Batch) -> dict[str, Any] | None:
    if batch.brake is None:
        return None
    brake, since = stored_brake(batch.brake), batch.brake_since
    measured = measure(session, batch.id, brake, since)
    codes = count_codes(session, batch.id, brake, since) if measured.errors else {}
    return {**brake.to_report(), **asdict(measured), "codes": codes}


def take_over(session: Session, batch: Batch) -> None:
    """Let the batch run under the caller's API key if its own was revoked."""
    if batch.api_key_id is not None and session.get_one(ApiKey, batch.api_key_id).revoked_at:
        batch.api_key_id = current_origin().api_key_id
        _record(session, AuditAction.BATCH_TAKEN_OVER, batch)


def _record(session: Session, action: AuditAction, batch: Batch) -> None:
    record(session, action, "batch", batch.id, organisation_id=batch.organisation_id)


def fields_of(
    batch: Batch, supplier: str, team: str | None, counts: dict[str, int], reverted: Reverted | None
) -> dict[str, Any]:
    """Return the fields of a BatchReport that lists also contain."""
    return {
        "batch_id": batch.id,
        "import_supplier": supplier,
        "operations_team_name": team,
        "name": batch.name,
        "file_name": batch.file_name,
        "file_sha256": batch.file_sha256.hex() if batch.file_sha256 else None,
        "file_bytes": batch.file_bytes,
        "kind": batch.kind,
        "mode": batch.mode,
        "options": batch.options,
        "profile": batch.profile,
        "extracted_at": batch.extracted_at,
        "older_versions": batch.older_versions,
        "source": batch.source,
        "state": batch.state,
        "reason": batch.reason,
        "created_at": batch.created_at,
        "started_at": batch.started_at,
        "finished_at": batch.finished_at,
        "lines_removed_at": batch.lines_removed_at,
        "lines": batch.lines,
        "counts": {status.value: counts.get(status, 0) for status in LineStatus},
        "reverted": reverted.accounts if reverted else 0,
        "undone": reverted.undone if reverted else 0,
    }
