"""The attempts of a batch: recorded for each account, as those of single requests are, but many at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.db.statements import Transaction
from migration_service.errors import DryRunSucceededError, ServiceError
from migration_service.origin import current_origin
from migration_service.schemas.json import encode_json
from migration_service.services.imports.staging import StagedProcess
from migration_service.services.processing.creation import CreatedAccount
from migration_service.services.processing.customer_emails import record_customer_emails
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchMode, Outcome, Profile


@dataclass(frozen=True, slots=True)
class ChunkJob:
    """What is to be done with the lines of a chunk, and for whom."""

    supplier: KnownSupplier
    mode: BatchMode
    operations_team_id: int | None
    api_key_id: int | None
    batch_id: UUID
    #: What the lines are validated under.
    profile: Profile


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """One run of account creation that is over."""

    id: UUID
    process: StagedProcess
    outcome: CreatedAccount | ServiceError

    @property
    def first_staged(self) -> bool:
        """Whether the process came into being with this attempt."""
        return self.process.first


def record_attempts(session: Session, job: ChunkJob, ended: Sequence[EndedAttempt]) -> None:
    """Keep the attempts; the processes of accounts that were created for good are IMPORTED.

    Their customers get their e-mails, where the supplier wants that.
    """
    if not ended:
        return
    dry_run = job.mode is BatchMode.DRY_RUN
    rows = [_row(attempt, dry_run=dry_run) for attempt in ended]
    values = {
        "attempts": encode_json(rows).decode(),
        "operations_team_id": job.operations_team_id,
        "api_key_id": job.api_key_id,
        "dry_run": dry_run,
        "request_id": f"batch {job.batch_id}",
        "address": current_origin().address,
    }
    session.execute(_RECORD, values)
    created = [row["process_id"] for row in rows if row["outcome"] == Outcome.SUCCEEDED]
    if created and job.supplier.sends_customer_emails:
        record_customer_emails(Transaction.of(session), created)


def _row(attempt: EndedAttempt, *, dry_run: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"id": attempt.id, "process_id": attempt.process.id}
    outcome = attempt.outcome
    if isinstance(outcome, CreatedAccount) and not dry_run:
        number = outcome.service_account_number
        return row | {"outcome": Outcome.SUCCEEDED, "number": number, "created_at": outcome.created_at}
    error = outcome if isinstance(outcome, ServiceError) else DryRunSucceededError()
    return row | {
        "outcome": Outcome.FAILED if isinstance(outcome, ServiceError) else Outcome.DRY_RUN_SUCCEEDED,
        "error_code": error.code,
        "error_detail": error.detail,
        "errors": [item.to_dict() for item in error.errors],
    }


_RECORD = text("""
    WITH ended AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(CAST(:attempts AS jsonb)) AS ended (
            id uuid, process_id bigint, outcome text, number text, created_at timestamptz,
            error_code text, error_detail text, errors jsonb)
    ), imported AS (
        UPDATE account_import_process AS process
        SET state = 'IMPORTED', service_account_number = ended.number, account_created_at = ended.created_at
        FROM ended WHERE process.id = ended.process_id AND ended.outcome = 'SUCCEEDED'
    )
    INSERT INTO attempt (id, account_import_process_id, operations_team_id, api_key_id, dry_run, request_id,
        address, finished_at, outcome, service_account_number, error_code, error_detail, errors)
    SELECT id, process_id, :operations_team_id, :api_key_id, :dry_run, :request_id,
        :address, now(), outcome, number, error_code, error_detail, errors
    FROM ended
""")
