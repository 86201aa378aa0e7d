"""The attempts of a batch, recorded like those of single requests, but for many accounts together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from migration_service.db.statements import OpenTransaction
from migration_service.errors import DryRunSucceededError, ServiceError
from migration_service.origin import current_origin
from migration_service.services.batches.work.added_data.instructions import Answer, InstructionKey
from migration_service.services.imports.states import EndedAttempt, RunningAttempt
from migration_service.services.imports.storing import StagedProcess
from migration_service.services.processing.attempts import complete_attempts, with_account
from migration_service.services.processing.creation import CreatedAccount
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchKind, BatchMode, Profile


@dataclass(frozen=True, slots=True)
class ChunkJob:
    """The settings for processing the lines of a chunk."""

    supplier: KnownSupplier
    mode: BatchMode
    operations_team_id: int | None
    api_key_id: int | None
    batch_id: UUID
    #: The profile used to validate the lines.
    profile: Profile
    #: The kind of data in the lines, and the options of the batch.
    kind: BatchKind = BatchKind.ACCOUNTS
    options: Mapping[str, bool] = field(default_factory=dict)
    #: When the supplier extracted the accounts, or None if it did not say.
    extracted_at: datetime | None = None
    #: The vendors' responses to the payment instructions in the lines.
    answers: Mapping[InstructionKey, Answer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LineToDo:
    """A pending line. Its payload is its own text, or the one staged for the process."""

    line_number: int
    payload: bytes | None
    external_account_number: str | None
    account_import_process_id: int | None
    #: When the line failed, if it is being retried.
    failed_at: datetime | None


@dataclass(frozen=True, slots=True)
class PerformedLine:
    """A line with the result of creating its account."""

    attempt_id: UUID
    process: StagedProcess
    result: CreatedAccount | ServiceError


def record_attempts(session: Session, job: ChunkJob, performed: Sequence[PerformedLine]) -> None:
    """Record the attempts. Except in a dry run, the processes of created accounts become IMPORTED.

    Their customers get e-mails if the supplier sends them.
    """
    complete_attempts(
        OpenTransaction.of(session),
        [_end(job, one) for one in performed],
        begun=False,
        sends_customer_emails=job.supplier.sends_customer_emails,
    )


def _end(job: ChunkJob, performed: PerformedLine) -> EndedAttempt:
    dry_run = job.mode is BatchMode.DRY_RUN
    attempt = RunningAttempt(
        id=performed.attempt_id,
        account_import_process_id=performed.process.id,
        operations_team_id=job.operations_team_id or 0,
        api_key_id=job.api_key_id,
        dry_run=dry_run,
        request_id=f"batch {job.batch_id}",
        address=current_origin().address,
    )
    if isinstance(performed.result, ServiceError):
        return EndedAttempt.with_error(attempt, performed.result)
    if dry_run:
        return EndedAttempt.with_error(attempt, DryRunSucceededError())
    return with_account(attempt, performed.result)
