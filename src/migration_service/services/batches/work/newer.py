"""Versions of accounts that arrived after a line had failed. A retry of the line does not replace them.

If the time of either extract is unknown, the version that arrived later counts as newer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from migration_service.db.statements import OpenTransaction
from migration_service.errors import NewerVersionRefusedError, NewerVersionStagedError, ServiceError
from migration_service.schemas.moments import write_moment
from migration_service.services.batches.work.attempts import ChunkJob, LineToDo
from migration_service.states import ImportState


@dataclass(frozen=True, slots=True)
class NewerVersion:
    """A version that arrived after a line had failed."""

    #: The hash of the payload that was staged, or None.
    staged_sha256: bytes | None
    #: When a version was refused, or None.
    refused_at: datetime | None
    #: Whether the account has not been created yet.
    is_pending: bool

    def is_other(self, sha256: bytes | None) -> bool:
        """Return whether the payload has another hash."""
        return self.refused_at is not None or self.staged_sha256 != sha256

    def error(self) -> ServiceError:
        """Return the error of a line that is not accepted because of this version."""
        if self.refused_at is not None:
            return NewerVersionRefusedError.at(write_moment(self.refused_at))
        return NewerVersionStagedError("Another payload was staged after the line had failed. It is kept.")


def find_newer_versions(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo]
) -> dict[int, NewerVersion]:
    """Return the newer versions of the accounts of retried lines, by line number."""
    retried = [line for line in lines if line.failed_at and line.account_import_process_id is None]
    if not retried:
        return {}
    values = {
        "import_supplier_id": job.supplier.id,
        "batch_id": job.batch_id,
        "extracted_at": job.extracted_at,
        "lines": [line.line_number for line in retried],
        "numbers": [line.external_account_number for line in retried],
        "failed": [line.failed_at for line in retried],
    }
    return {
        row.line_number: NewerVersion(
            row.payload_sha256 if row.is_staged else None,
            row.refused_at if row.is_refused else None,
            row.state == ImportState.PENDING,
        )
        for row in OpenTransaction.of(session).execute(_NEWER, values)
    }


# If both extract times are known, they decide. For staged payloads, staging compares them.
_NEWER = """
    SELECT * FROM (
        SELECT line_number, process.payload_sha256, process.refused_at, process.state,
            process.staged_at > failed_at
                AND (process.extracted_at IS NULL OR %(extracted_at)s::timestamptz IS NULL) AS is_staged,
            coalesce(process.refused_at > failed_at
                AND (process.refused_batch_id, process.refused_line_number)
                    IS DISTINCT FROM (%(batch_id)s::uuid, line_number)
                AND coalesce(process.refused_extracted_at > %(extracted_at)s::timestamptz, true), false)
                AS is_refused
        FROM unnest(%(lines)s::bigint[], %(numbers)s::text[], %(failed)s::timestamptz[])
                 AS line (line_number, number, failed_at)
        JOIN account_import_process AS process
          ON process.import_supplier_id = %(import_supplier_id)s
         AND process.external_account_number = line.number) AS found
    WHERE is_staged OR is_refused
"""
