"""Validation, staging and creation of the accounts of a chunk's lines. Each line has its own outcome.

The functions are those of the single endpoints, called for many accounts together. If the database refuses a
set of accounts, the set is halved until the faulty ones are found (`each_by_itself`).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from traceback import extract_tb
from typing import Any, TypeVar
from uuid import UUID

from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import and_, case, exists, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from migration_service.db.statements import OpenTransaction
from migration_service.errors import (
    AccountImportInProgressError,
    DuplicateLineError,
    ErrorItem,
    ImportSupplierMismatchError,
    LineFailedUnexpectedlyError,
    NewerVersionRefusedError,
    ServiceError,
)
from migration_service.models import AccountImportProcess, SkipMark
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.schemas.json import parse_json
from migration_service.schemas.moments import write_moment
from migration_service.services.batches.intake.options import INCLUDE_OLDER_VERSIONS
from migration_service.services.batches.work.added_data.marks import find_other_kind
from migration_service.services.batches.work.attempts import (
    ChunkJob,
    LineToDo,
    PerformedLine,
    record_attempts,
)
from migration_service.services.batches.work.newer import find_newer_versions
from migration_service.services.batches.work.processor_time import (
    PieceTime,
)
from migration_service.services.imports import storing
from migration_service.services.imports.payload_differences import compare_with_created
from migration_service.services.imports.staging import refusal_of
from migration_service.services.imports.states import refusal
from migration_service.services.imports.storing import StagedProcess
from migration_service.services.imports.validation import ValidatedAccount, validate_text
from migration_service.services.processing.creation import (
    KEEP_THE_PLAN,
    CreatedAccount,
    create_accounts,
    explain_refusal,
)
from migration_service.states import BatchMode, ImportState, LineStatus, StagingResult

logger = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Read = TypeVar("_Read")


@dataclass(slots=True)
class LineResult:
    """The outcome of a line."""

    line_number: int
    status: LineStatus
    external_account_number: str | None
    service_account_number: str | None = None
    errors: list[ErrorItem] = field(default_factory=list)
    warnings: list[ErrorItem] = field(default_factory=list)
    staging_result: StagingResult | None = None
    #: The hash of the payload, if it is valid.
    sha256: bytes | None = None
    #: The line was retried, but a newer version had arrived in the meantime.
    is_outdated: bool = False

    def refuse(self, error: ServiceError, process: StagedProcess | None = None) -> None:
        """Record that the account was refused for this reason."""
        status = {ImportState.IMPORTED: LineStatus.ALREADY_IMPORTED, ImportState.SKIPPED: LineStatus.SKIPPED}
        self.status = status.get(process.state, LineStatus.FAILED) if process else LineStatus.FAILED
        self.errors = error.errors
        self.service_account_number = process.service_account_number if process else None


@dataclass(slots=True)
class _Candidate:
    """A line with a valid payload whose account is not staged or created yet."""

    result: LineResult
    attempt_id: UUID
    #: None if the payload is already staged.
    account: ValidatedAccount | None = None
    process: StagedProcess | None = None


def work_on_lines(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo], attempts: Sequence[UUID]
) -> list[LineResult]:
    """Return the outcome of each line in the mode of its batch. `attempts` has an id for each line.

    A dry run is rolled back to its savepoint. The caller must commit the outcomes in the same transaction.
    """
    results, candidates = _read_lines(session, job, lines, attempts)
    if job.mode is BatchMode.VALIDATE:
        for candidate in candidates:
            candidate.result.status = LineStatus.VALID
        return results
    candidates = _leave_newer_versions(session, job, lines, results, candidates)
    if job.mode is not BatchMode.DRY_RUN:
        record_attempts(session, job, _perform(session, job, candidates))
        return results
    everything = session.begin_nested()
    performed = _perform(session, job, candidates)
    everything.rollback()
    # A process staged for the first time by the dry run no longer exists, so nothing can refer to it.
    record_attempts(session, job, [one for one in performed if not one.process.first])
    return results


def _read_lines(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo], attempts: Sequence[UUID]
) -> tuple[list[LineResult], list[_Candidate]]:
    """Return a result for each line, FAILED with its errors if it has any, and the candidates.

    Lines that validation has no time for are absent, and stay unchanged.
    """
    time_left = PieceTime()
    results: list[LineResult] = []
    candidates: list[_Candidate] = []
    staged = _lock_staged(session, job, lines)
    numbers: set[str | None] = set()
    for line, attempt_id in zip(lines, attempts, strict=False):
        if results and time_left.is_over():
            break
        candidate = _Candidate(
            LineResult(line.line_number, LineStatus.FAILED, line.external_account_number), attempt_id
        )
        results.append(candidate.result)
        if line.account_import_process_id is not None:
            sound = _take_staged(job, line.account_import_process_id, staged, candidate)
        else:
            sound = _read_payload(job, line.payload or b"", candidate)
        if sound and candidate.result.external_account_number in numbers:
            # Repeated accounts were found while the file arrived, except for numbers written with escapes.
            candidate.result.refuse(DuplicateLineError())
        elif sound:
            numbers.add(candidate.result.external_account_number)
            candidates.append(candidate)
    return results, candidates


def _read_payload(job: ChunkJob, payload: bytes, candidate: _Candidate) -> bool:
    """Validate a payload and store the result in the candidate. Return whether it has no errors."""
    result = candidate.result
    account = read_guarded(job, result, partial(_validate, job, payload))
    if account is None:
        return False
    found = account.data.get("import_supplier", job.supplier.code)
    if found != job.supplier.code:
        account.errors += ImportSupplierMismatchError(found=found, expected=job.supplier.code).errors
    result.external_account_number = account.data.get("external_account_number")
    result.errors, result.warnings = account.errors, account.warnings
    candidate.account = account
    if not account.errors:
        result.sha256 = account.sha256
    return not account.errors


def _validate(job: ChunkJob, payload: bytes) -> ValidatedAccount:
    account = validate_text(payload, job.profile, job.supplier.time_zone)
    if account.errors and (other := find_other_kind(parse_json(payload), job.kind)):
        raise other
    return account


def read_guarded(job: ChunkJob, result: LineResult, read: Callable[[], _Read]) -> _Read | None:
    """Return the result of `read` for the text of a line. If it fails, record the reason and return None."""
    try:
        return read()
    except ServiceError as error:
        result.errors = error.errors
    except _FAULTS as error:
        _log_fault(job, result.line_number, error)
        result.refuse(LineFailedUnexpectedlyError())
    return None


#: Exceptions caused by defects in the validation, unlike a lost connection or the time limit of a task.
_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


def _log_fault(job: ChunkJob, line_number: int, error: Exception) -> None:
    """Log the origin of an exception, but not its message, which could contain values of the line."""
    place = extract_tb(error.__traceback__)[-1]
    logger.error(
        "Line %d of batch %s failed: %s in %s, line %s",
        *(line_number, job.batch_id, type(error).__name__, place.filename, place.lineno),
    )


@dataclass(frozen=True, slots=True)
class _Staged:
    process: StagedProcess
    #: The payload, if it must be revalidated because the rules or the supplier's profile changed.
    payload: bytes | None
    #: When a newer version that was refused was sent.
    refused_at: datetime | None
    #: The stored warnings of the staged payload.
    warnings: list[dict[str, Any]]


def _lock_staged(session: Session, job: ChunkJob, lines: Sequence[LineToDo]) -> dict[int, _Staged]:
    """Lock and return the processes of lines of source `pending`, except those locked already."""
    ids = [line.account_import_process_id for line in lines if line.account_import_process_id is not None]
    if not ids:
        return {}
    process = AccountImportProcess
    stale = (process.rules_version != RULES_VERSION) | (process.profile != job.profile)
    payload = case((stale, process.payload.op("::")(text("text")))).label("payload")
    # An account that an operator skipped before it was first staged is PENDING and has a skip mark.
    is_marked = exists().where(
        SkipMark.import_supplier_id == process.import_supplier_id,
        SkipMark.external_account_number == process.external_account_number,
    )
    marked = and_(process.state == ImportState.PENDING, is_marked)
    state = case((marked, ImportState.SKIPPED.value), else_=process.state).label("state")
    rows = session.execute(
        select(
            process.id,
            state,
            process.service_account_number,
            process.refused_at,
            payload,
            process.warnings,
        )
        .where(process.id.in_(ids))
        .with_for_update(skip_locked=True)
    )
    return {
        row.id: _Staged(
            StagedProcess(row.id, ImportState(row.state), service_account_number=row.service_account_number),
            row.payload.encode() if row.payload else None,
            row.refused_at,
            row.warnings or [],
        )
        for row in rows
    }


def _take_staged(job: ChunkJob, process_id: int, staged: dict[int, _Staged], candidate: _Candidate) -> bool:
    found = staged.get(process_id)
    process = found.process if found else StagedProcess(process_id, ImportState.IN_PROGRESS)
    number = candidate.result.external_account_number or ""
    if error := refusal(process.state, number, process.service_account_number):
        candidate.result.refuse(error, process)
        return False
    if found and found.refused_at and not job.options.get(INCLUDE_OLDER_VERSIONS):
        candidate.result.refuse(NewerVersionRefusedError.at(write_moment(found.refused_at)))
        return False
    candidate.process = process
    if found and found.payload:
        return _read_payload(job, found.payload, candidate)
    candidate.result.warnings = [ErrorItem(**it) for it in (found.warnings if found else ())]
    return True


def _leave_newer_versions(
    session: Session,
    job: ChunkJob,
    lines: Sequence[LineToDo],
    results: Sequence[LineResult],
    candidates: list[_Candidate],
) -> list[_Candidate]:
    """Return the candidates, except those that would replace a version sent after they had failed."""
    newer = find_newer_versions(session, job, lines)
    for result in results:
        found = newer.get(result.line_number)
        result.is_outdated = found is not None and found.is_other(result.sha256)
    left = []
    for candidate in candidates:
        result = candidate.result
        if result.is_outdated and newer[result.line_number].is_pending:
            result.refuse(newer[result.line_number].error())
        else:
            left.append(candidate)
    return left


def _perform(session: Session, job: ChunkJob, candidates: list[_Candidate]) -> list[PerformedLine]:
    """Stage the candidates and create their accounts, depending on the mode. Return the attempts made."""
    _stage(session, job, [candidate for candidate in candidates if candidate.account])
    taken = [candidate for candidate in candidates if candidate.process and not candidate.result.errors]
    if not job.mode.creates:
        for candidate in taken:
            candidate.result.status = LineStatus.STAGED
        return []
    return _create(session, job, taken)


def _stage(session: Session, job: ChunkJob, candidates: list[_Candidate]) -> None:
    def stage(some: Sequence[_Candidate]) -> list[StagedProcess]:
        accounts = [it.account for it in some if it.account]
        return storing.stage(
            OpenTransaction.of(session),
            job.supplier,
            accounts,
            profile=job.profile,
            extracted_at=job.extracted_at,
            is_sent=not any(it.process for it in some),
        )

    outcomes: list[StagedProcess | ServiceError] = each_by_itself(session, candidates, stage)
    for candidate, outcome in zip(candidates, outcomes, strict=True):
        if isinstance(outcome, ServiceError):
            candidate.result.refuse(outcome)
            continue
        candidate.process = outcome
        number = candidate.result.external_account_number or ""
        if error := refusal_of(outcome, number, job.extracted_at):
            candidate.result.refuse(error, outcome)
        elif job.mode is not BatchMode.DRY_RUN:
            candidate.result.staging_result = outcome.result
    _compare_repeated(session, candidates)


def _compare_repeated(session: Session, candidates: Sequence[_Candidate]) -> None:
    """Add a warning to lines whose account exists but was created from different data."""
    repeated = [
        (candidate, candidate.process, candidate.account)
        for candidate in candidates
        if candidate.process and candidate.account and candidate.process.state is ImportState.IMPORTED
    ]
    pairs = [(process, account) for _, process, account in repeated]
    differing = compare_with_created(OpenTransaction.of(session), pairs)
    for (candidate, _, _), items in zip(repeated, differing, strict=True):
        candidate.result.warnings = [*candidate.result.warnings, *items]


def _create(session: Session, job: ChunkJob, candidates: list[_Candidate]) -> list[PerformedLine]:
    def create(some: Sequence[_Candidate]) -> list[CreatedAccount]:
        teams = {it.process.id: job.operations_team_id or 0 for it in some if it.process}
        made = create_accounts(OpenTransaction.of(session), teams)
        created = {account.account_import_process_id: account for account in made}
        return [created[process_id] for process_id in teams]

    session.execute(text(KEEP_THE_PLAN))
    done = LineStatus.WOULD_IMPORT if job.mode is BatchMode.DRY_RUN else LineStatus.IMPORTED
    performed = []
    outcomes: list[CreatedAccount | ServiceError] = each_by_itself(session, candidates, create)
    for candidate, outcome in zip(candidates, outcomes, strict=True):
        if isinstance(outcome, ServiceError):
            candidate.result.refuse(outcome)
        else:
            candidate.result.status = done
            if done is LineStatus.IMPORTED:
                candidate.result.service_account_number = outcome.service_account_number
        if candidate.process:
            performed.append(PerformedLine(candidate.attempt_id, candidate.process, outcome))
    return performed


def each_by_itself(
    session: Session,
    items: Sequence[_Item],
    action: Callable[[Sequence[_Item]], Sequence[_Result]],
    explain: Callable[[DBAPIError], ServiceError | None] = explain_refusal,
) -> list[_Result | ServiceError]:
    """Call `action` with all items together. If the database refuses them, do the same with each half.

    One faulty item among a hundred costs some repetitions, and only its own result is an error. `explain`
    returns that error, or None for a failure that no item caused.
    """
    if not items:
        return []
    try:
        with session.begin_nested():
            return [*action(items)]
    except DBAPIError as error:
        refused = explain(error)
        if isinstance(error.orig, (LockNotAvailable, DeadlockDetected)):  # locked by another transaction
            refused = AccountImportInProgressError()
        if refused is None:
            raise
    if len(items) == 1:
        return [refused]
    middle = len(items) // 2
    first = each_by_itself(session, items[:middle], action, explain)
    return first + each_by_itself(session, items[middle:], action, explain)
