"""Newer versions of accounts on lines of batches that were not accepted."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.db.sql import OpenTransaction
from migration_service.services.batches.work.lines import ChunkJob, LineResult, LineToDo, each_by_itself
from migration_service.services.imports.newer_versions import RefusedVersion, note_refused, note_taken
from migration_service.states import BatchMode, LineStatus

#: Errors of lines that contain no newer version of an account of the supplier.
_NO_VERSION = {
    errors.DuplicateLineError.code,
    errors.ImportSupplierMismatchError.code,
    errors.LineKindMismatchError.code,
    errors.NewerVersionStagedError.code,
}


def note_versions(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo], results: Sequence[LineResult]
) -> None:
    """Mark accounts whose newer version on a line was not accepted, in modes `stage` and `import` only.

    If another transaction keeps an account locked for long, its line fails and can be retried.
    """
    if job.mode not in (BatchMode.STAGE, BatchMode.IMPORT):
        return
    sent = {line.line_number for line in lines if line.account_import_process_id is None}
    left = [it for it in results if it.line_number in sent and it.external_account_number]
    refused = [version for one in left if (version := _find_refused(one))]
    transaction, supplier_id = OpenTransaction.of(session), job.supplier.id
    of_file: dict[str, Any] = {"extracted_at": job.extracted_at, "sent_at": job.sent_at}

    def note(some: Sequence[RefusedVersion]) -> Sequence[None]:
        note_refused(transaction, supplier_id, some, batch_id=job.chunk.batch_id, **of_file)
        return [None] * len(some)

    outcomes: list[errors.ServiceError | None] = each_by_itself(session, refused, note)
    locked = {it.line_number: error.errors for it, error in zip(refused, outcomes, strict=True) if error}
    for one in left:
        known = {item.code for item in one.errors}
        one.errors += [item for item in locked.get(one.line_number, ()) if item.code not in known]
    same = [
        one.external_account_number or ""
        for one in left
        if one.status is LineStatus.ALREADY_IMPORTED and not _find_differences(one)
    ]
    if same:
        note_taken(transaction, supplier_id, same, **of_file)


def _find_refused(one: LineResult) -> RefusedVersion | None:
    number, found = one.external_account_number or "", _find_differences(one)
    if one.status is not LineStatus.ALREADY_IMPORTED:
        found = [*one.errors, *found]
    taken = one.staging_result is not None or _NO_VERSION.intersection(item.code for item in found)
    if taken or not found:
        return None
    return RefusedVersion(number, found, one.sha256, one.line_number, one.payload)


def _find_differences(one: LineResult) -> list[errors.ErrorItem]:
    return [item for item in one.warnings if item.code == errors.PayloadDiffersError.code]
