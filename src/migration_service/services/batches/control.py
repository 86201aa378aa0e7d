"""Reads, pauses, resumes and cancels batches; `states` has the table of the changes."""

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
from migration_service.services.batches.holds import require_no_undo
from migration_service.services.batches.intake.control_totals import report_control_totals
from migration_service.services.batches.results.activity import read_activity
from migration_service.services.batches.results.counts import get_progress
from migration_service.services.batches.results.reverted import Reverted, count_created, count_reverted
from migration_service.services.batches.results.waiting import read_waiting
from migration_service.services.batches.states import CANCEL, PAUSE, RESUME, change_batch
from migration_service.services.setup.suppliers import KnownSupplier, require_supplier_allowed
from migration_service.states import BatchCondition, BatchState, LineStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A batch and its progress. The names are those of the interface."""

    batch_id: UUID
    import_supplier: str
    operations_team_name: str | None
    #: Its name, if it was given one, and the name of the file that its lines came in.
    name: str | None
    file_name: str | None
    #: The SHA-256, in hexadecimal digits, and the size of the file as it was sent.
    file_sha256: str | None
    file_bytes: int | None
    #: What its lines are.
    kind: str
    mode: str
    #: For transactions: the arguments of the single endpoint. For what is pending: include_older_versions.
    options: dict[str, bool]
    #: The profile that its lines are validated under, or None for the supplier's own.
    profile: str | None
    #: When the supplier extracted its accounts, if it says so.
    extracted_at: datetime | None
    #: Of what was pending: accounts that were left out, because a newer version of them was refused.
    older_versions: int | None
    source: str
    state: str
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    #: When the lines were removed, after their retention time.
    lines_removed_at: datetime | None
    lines: int
    #: Lines by status, with every status.
    counts: dict[str, int]
    #: Accounts of its lines that undos have reverted, and those of them that do not exist now.
    reverted: int = 0
    undone: int = 0
    #: The rest is only in the report of a single batch. The number of lines with an error of this code.
    error_counts: dict[str, int] | None = None
    warning_counts: dict[str, int] | None = None
    #: The number of lines by what staging their payload did.
    staging_counts: dict[str, int] | None = None
    #: Lines per second, measured or on average. None if it is not known.
    rate: float | None = None
    #: Seconds in which it has to run: probably, at best and at worst. None if it does not run, makes no
    #: progress, or if too little was seen yet.
    time_left: float | None = None
    time_left_low: float | None = None
    time_left_high: float | None = None
    #: The end of the window of its wave, from which on no line is begun. None: there is no such moment.
    runs_until: datetime | None = None
    #: Why it makes little or no progress. None if it makes progress, or does not run.
    condition: BatchCondition | None = None
    #: If all its open lines are deferred: when they are next tried, and vendors that the first of them name.
    next_try_at: datetime | None = None
    waits_for_vendors: list[str] | None = None
    #: What pauses it after too many errors, with the numbers of lines and errors that count now. None:
    #: nothing does.
    brake: dict[str, Any] | None = None
    #: How many of the supplier's control totals differ from the file. None: none were given.
    control_totals_differing: int | None = None
    #: Whether none differs and the whole file could be read. None: none were given.
    control_totals_as_given: bool | None = None


def get_batch(session: Session, batch_id: str, *, organisation_id: int | None) -> Batch:
    """Return the organisation's batch (None: any organisation's, for operators). Raise BatchNotFoundError."""
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
        raise BatchStateError("The lines of the batch are not kept any more.")
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
    """Begin no further line until the batch is resumed. Raise BatchStateError if it is not running."""
    change_batch(session, batch, PAUSE)
    _record(session, AuditAction.BATCH_PAUSED, batch)


def resume_batch(session: Session, batch: Batch) -> None:
    """Continue a batch that is PAUSED or STOPPED.

    Raise BatchStateError if it is neither, or if accounts of it are being undone.
    """
    require_no_undo(session, batch)
    change_batch(session, batch, RESUME)
    take_over(session, batch)
    _record(session, AuditAction.BATCH_RESUMED, batch)


def cancel_batch(session: Session, batch: Batch) -> None:
    """Cancel the batch permanently. Finished lines are kept. Raise BatchStateError if the batch is over."""
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
    """If the key that the batch runs under was revoked, let it run under that of whoever controls it now."""
    if batch.api_key_id is not None and session.get_one(ApiKey, batch.api_key_id).revoked_at:
        batch.api_key_id = current_origin().api_key_id
        _record(session, AuditAction.BATCH_TAKEN_OVER, batch)


def _record(session: Session, action: AuditAction, batch: Batch) -> None:
    record(session, action, "batch", batch.id, organisation_id=batch.organisation_id)


def fields_of(
    batch: Batch, supplier: str, team: str | None, counts: dict[str, int], reverted: Reverted | None
) -> dict[str, Any]:
    """Return those fields of a BatchReport that a list has, too."""
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
