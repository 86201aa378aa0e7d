"""Reading, pausing, resuming and cancelling batches. The table of changes is in `states`."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from migration_service.errors import BatchNotFoundError, BatchStateError
from migration_service.models import ApiKey, Batch, ImportSupplier, OperationsTeam
from migration_service.origin import current_origin
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.error_thresholds import count_codes, measure, stored_threshold
from migration_service.services.batches.intake.control_totals import report_control_totals
from migration_service.services.batches.results.activity import read_activity, read_waiting
from migration_service.services.batches.results.counts import get_progress
from migration_service.services.batches.results.reverted import Reverted, count_created, count_reverted
from migration_service.services.batches.states import CANCEL, PAUSE, RESUME, change_batch
from migration_service.services.batches.undo_guards import require_no_undo
from migration_service.services.setup.suppliers import get_owned
from migration_service.states import BatchCondition, BatchState, LineStatus

#: The columns of a batch that its report has, too.
_COLUMNS = (
    *("name", "file_name", "file_bytes", "kind", "mode", "options", "profile", "extracted_at"),
    *("older_versions", "source", "state", "reason", "created_at", "started_at", "finished_at"),
    *("lines_removed_at", "lines"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A batch and its progress. The members are those of the interface (`schemas.batches`)."""

    batch_id: UUID
    import_supplier: str
    operations_team_name: str | None
    name: str | None
    file_name: str | None
    file_sha256: str | None
    file_bytes: int | None
    kind: str
    mode: str
    options: dict[str, bool]
    profile: str | None
    extracted_at: datetime | None
    older_versions: int | None
    source: str
    state: str
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lines_removed_at: datetime | None
    lines: int
    counts: dict[str, int]
    #: The number of accounts of its lines that undos have reverted, and of those that no longer exist.
    reverted: int = 0
    undone: int = 0
    #: This and what follows is only in the report of a single batch.
    error_counts: dict[str, int] | None = None
    warning_counts: dict[str, int] | None = None
    staging_counts: dict[str, int] | None = None
    rate: float | None = None
    time_left: float | None = None
    time_left_low: float | None = None
    time_left_high: float | None = None
    runs_until: datetime | None = None
    condition: BatchCondition | None = None
    next_try_at: datetime | None = None
    waits_for_vendors: list[str] | None = None
    brake: dict[str, Any] | None = None
    control_totals_differing: int | None = None
    control_totals_as_given: bool | None = None


def get_batch(session: Session, batch_id: str, *, organisation_id: int | None) -> Batch:
    """Return the organisation's batch, or any batch if the organisation is None. Raise BatchNotFoundError."""
    return get_owned(session, Batch, batch_id, BatchNotFoundError, organisation_id)


def get_batch_with_lines(session: Session, batch_id: str, *, organisation_id: int | None) -> Batch:
    """Return the batch as `get_batch` does. Raise BatchStateError if its lines are no longer kept."""
    batch = get_batch(session, batch_id, organisation_id=organisation_id)
    if batch.lines_removed_at:
        raise BatchStateError("The lines of the batch are no longer kept.")
    return batch


def report_batch(session: Session, batch: Batch) -> BatchReport:
    """Return the full report of a batch."""
    supplier = session.get_one(ImportSupplier, batch.import_supplier_id).code
    team_id = batch.operations_team_id
    team = None if team_id is None else session.get(OperationsTeam, team_id)
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
        **fields_of(batch, supplier, team.name if team else None, progress.counts, reverted.get(batch.id)),
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
        brake=_report_threshold(session, batch),
        control_totals_differing=control.differing,
        control_totals_as_given=control.as_given,
    )


def pause_batch(session: Session, batch: Batch) -> None:
    """Start no more lines until the batch is resumed. Raise BatchStateError if it is not running."""
    change_batch(session, batch, PAUSE)
    _record(session, AuditAction.BATCH_PAUSED, batch)


def resume_batch(session: Session, batch: Batch) -> None:
    """Continue a batch that is PAUSED or STOPPED. Raise BatchStateError also if it is being undone."""
    require_no_undo(session, batch)
    change_batch(session, batch, RESUME)
    take_over(session, batch)
    _record(session, AuditAction.BATCH_RESUMED, batch)


def cancel_batch(session: Session, batch: Batch) -> None:
    """Cancel the batch permanently. Finished lines are kept. Raise BatchStateError if the batch has ended."""
    change_batch(session, batch, CANCEL)
    _record(session, AuditAction.BATCH_CANCELLED, batch)


def _report_threshold(session: Session, batch: Batch) -> dict[str, Any] | None:
    if batch.brake is None:
        return None
    threshold, since = stored_threshold(batch.brake), batch.brake_since
    measured = measure(session, batch.id, threshold, since)
    codes = count_codes(session, batch.id, threshold, since) if measured.errors else {}
    return {**threshold.to_dict(), **asdict(measured), "codes": codes}


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
    return {name: getattr(batch, name) for name in _COLUMNS} | {
        "batch_id": batch.id,
        "import_supplier": supplier,
        "operations_team_name": team,
        "file_sha256": batch.file_sha256.hex() if batch.file_sha256 else None,
        "counts": {status.value: counts.get(status, 0) for status in LineStatus},
        "reverted": reverted.accounts if reverted else 0,
        "undone": reverted.undone if reverted else 0,
    }
