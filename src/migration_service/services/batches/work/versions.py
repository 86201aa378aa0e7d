"""Newer versions of accounts: those that arrived after a line, and those that were not accepted.

A line does not replace a version that arrived after its file, nor, if it is retried, one that arrived after
it had failed. If the time of either extract is unknown, the version that arrived later counts as newer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service.db.sql import OpenTransaction
from migration_service.errors import (
    DuplicateLineError,
    ErrorItem,
    ImportSupplierMismatchError,
    LineKindMismatchError,
    NewerVersionRefusedError,
    NewerVersionStagedError,
    PayloadDiffersError,
    ServiceError,
)
from migration_service.services.batches.work.lines import ChunkJob, LineResult, LineToDo, each_by_itself
from migration_service.services.imports.newer_versions import RefusedVersion, note_refused, note_taken
from migration_service.states import BatchMode, ImportState, LineStatus

#: Errors of lines that contain no newer version of an account of the supplier.
_NO_VERSION = {
    DuplicateLineError.code,
    ImportSupplierMismatchError.code,
    LineKindMismatchError.code,
    NewerVersionStagedError.code,
}


@dataclass(frozen=True, slots=True)
class NewerVersion:
    """A version that arrived after a line."""

    process_id: int
    #: The hash of the payload that was staged, or None.
    staged_sha256: bytes | None
    #: When a version was refused, or None.
    refused_at: datetime | None
    #: Whether the account has not been created yet.
    is_pending: bool

    def may_be_other(self, sha256: bytes | None) -> bool:
        """Return whether the payload has another hash."""
        return self.refused_at is not None or self.staged_sha256 != sha256

    def error(self) -> ServiceError:
        """Return the error of a line that is not accepted because of this version."""
        if self.refused_at is not None:
            return NewerVersionRefusedError.at(write_moment(self.refused_at))
        return NewerVersionStagedError("Another payload was staged after the line was sent. It is kept.")


def find_newer_versions(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo]
) -> dict[int, NewerVersion]:
    """Return the newer versions of the accounts of lines with their own payload, by line number."""
    sent = [line for line in lines if line.account_import_process_id is None and line.external_account_number]
    if not sent:
        return {}
    values = {
        "import_supplier_id": job.supplier.id,
        "batch_id": job.chunk.batch_id,
        "extracted_at": job.extracted_at,
        "lines": [line.line_number for line in sent],
        "numbers": [line.external_account_number for line in sent],
        "arrived": [line.failed_at or job.sent_at for line in sent],
        "retried": [line.failed_at is not None for line in sent],
    }
    found = OpenTransaction.of(session).execute(_NEWER, values)
    return {line_number: NewerVersion(*version) for line_number, *version in found}


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
        it for it in results if it.line_number in sent and it.external_account_number and not it.is_outdated
    ]
    refused = [version for one in left if (version := _find_refused(one))]
    transaction, extracted_at = OpenTransaction.of(session), job.extracted_at

    def note(some: Sequence[RefusedVersion]) -> Sequence[None]:
        batch_id = job.chunk.batch_id
        note_refused(transaction, job.supplier.id, some, extracted_at=extracted_at, batch_id=batch_id)
        return [None] * len(some)

    outcomes: list[ServiceError | None] = each_by_itself(session, refused, note)
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
        note_taken(transaction, job.supplier.id, same, extracted_at=extracted_at)


def _find_refused(one: LineResult) -> RefusedVersion | None:
    errors = _find_differences(one) if one.status is LineStatus.ALREADY_IMPORTED else one.errors
    taken = one.staging_result is not None or _NO_VERSION.intersection(item.code for item in errors)
    if taken or not errors:
        return None
    return RefusedVersion(one.external_account_number or "", errors, one.sha256, one.line_number)


def _find_differences(one: LineResult) -> list[ErrorItem]:
    return [item for item in one.warnings if item.code == PayloadDiffersError.code]


# If both extract times are known, they decide. For staged payloads, staging compares them. Lines that are not
# retried tell what differs from a created account.
_NEWER = f"""
    SELECT line_number, id, CASE WHEN is_staged THEN payload_sha256 END AS staged_sha256,
        CASE WHEN is_refused THEN refused_at END AS refused_at, state = '{ImportState.PENDING}' AS is_pending
    FROM (
        SELECT line_number, process.id, process.payload_sha256, process.refused_at, process.state,
            process.staged_at > arrived
                AND (process.extracted_at IS NULL OR %(extracted_at)s::timestamptz IS NULL) AS is_staged,
            coalesce(process.refused_at > arrived
                AND (process.refused_batch_id, process.refused_line_number)
                    IS DISTINCT FROM (%(batch_id)s::uuid, line_number)
                AND coalesce(process.refused_extracted_at > %(extracted_at)s::timestamptz, true), false)
                AS is_refused
        FROM unnest(%(lines)s::bigint[], %(numbers)s::text[], %(arrived)s::timestamptz[], %(retried)s::bool[])
                 AS line (line_number, number, arrived, is_retried)
        JOIN account_import_process AS process
          ON process.import_supplier_id = %(import_supplier_id)s
         AND process.external_account_number = line.number
         AND (is_retried OR process.state = '{ImportState.PENDING}')) AS found
    WHERE is_staged OR is_refused
"""
