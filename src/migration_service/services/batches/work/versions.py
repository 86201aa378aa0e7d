"""Newer versions of accounts on lines of a batch that were not accepted."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from migration_service.db.statements import OpenTransaction
from migration_service.errors import (
    DuplicateLineError,
    ImportSupplierMismatchError,
    LineKindMismatchError,
    NewerVersionStagedError,
    PayloadDiffersError,
    ServiceError,
)
from migration_service.services.batches.work.attempts import ChunkJob, LineToDo
from migration_service.services.batches.work.lines import LineResult, each_by_itself
from migration_service.services.imports.newer_versions import RefusedVersion, note_refused, note_taken
from migration_service.states import BatchMode, LineStatus

#: Errors of lines that contain no newer version of an account of the supplier.
_NO_VERSION = {
    DuplicateLineError.code,
    ImportSupplierMismatchError.code,
    LineKindMismatchError.code,
    NewerVersionStagedError.code,
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
    left = [
        one
        for one in results
        if one.line_number in sent and one.external_account_number and not one.is_outdated
    ]
    refused = [version for one in left if (version := _find_refused(one))]
    transaction = OpenTransaction.of(session)

    def note(some: Sequence[RefusedVersion]) -> Sequence[None]:
        note_refused(transaction, job.supplier.id, some, extracted_at=job.extracted_at, batch_id=job.batch_id)
        return [None] * len(some)

    outcomes: list[ServiceError | None] = each_by_itself(session, refused, note)
    held = {
        version.line_number: outcome.errors
        for version, outcome in zip(refused, outcomes, strict=True)
        if outcome is not None
    }
    for one in left:
        known = {item.code for item in one.errors}
        one.errors += [item for item in held.get(one.line_number, ()) if item.code not in known]
    same = [one.external_account_number or "" for one in left if _is_as_created(one)]
    if same:
        note_taken(transaction, job.supplier.id, same, extracted_at=job.extracted_at)


def _find_refused(one: LineResult) -> RefusedVersion | None:
    errors = one.errors
    if one.status is LineStatus.ALREADY_IMPORTED:
        errors = [item for item in one.warnings if item.code == PayloadDiffersError.code]
    taken = one.staging_result is not None or _NO_VERSION.intersection(item.code for item in errors)
    if taken or not errors:
        return None
    return RefusedVersion(one.external_account_number or "", errors, one.sha256, one.line_number)


def _is_as_created(one: LineResult) -> bool:
    differs = any(item.code == PayloadDiffersError.code for item in one.warnings)
    return one.status is LineStatus.ALREADY_IMPORTED and not differs
