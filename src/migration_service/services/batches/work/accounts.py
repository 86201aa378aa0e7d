"""Validation, staging and creation of the accounts of a chunk's lines. Each line has its own outcome.

The functions are those of the single endpoints, called for many accounts together. If the database refuses a
set of accounts, the set is halved until the faulty ones are found (`each_by_itself`).
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Row, and_, case, exists, select, text
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_payloads.rules.catalogue import RULES_VERSION
from migration_payloads.schemas.json import parse_json
from migration_payloads.validation import ValidatedAccount, validate_text
from migration_service import errors
from migration_service.db.sql import OpenTransaction
from migration_service.models import AccountImportProcess, ServiceLimit, SkipMark
from migration_service.origin import current_origin
from migration_service.services.batches.intake.options import INCLUDE_OLDER_VERSIONS
from migration_service.services.batches.work.lines import (
    ChunkJob,
    ChunkPlan,
    LineResult,
    LineToDo,
    each_by_itself,
    find_mismatch,
    find_other_kind,
    read_guarded,
    take_in_time,
)
from migration_service.services.batches.work.replacing import NewVersion, Replaced, replace_accounts
from migration_service.services.batches.work.versions import note_versions
from migration_service.services.emails.customer_emails import record_customer_emails
from migration_service.services.imports import storing
from migration_service.services.imports.newer_versions import compare_with_created
from migration_service.services.imports.staging import refusal_of
from migration_service.services.imports.states import EndedAttempt, RunningAttempt, complete, refusal
from migration_service.services.imports.storing import StagedProcess
from migration_service.services.processing.attempts import out_of_tries
from migration_service.services.processing.creation import KEEP_THE_PLAN, create_accounts
from migration_service.states import BatchMode, ImportState, LineStatus, Outcome, StagingResult

#: The errors of accounts whose creation was attempted.
_OF_ATTEMPTS = {errors.AccountCreationFailedError.code, errors.AccountNotStorableError.code}


@dataclass(slots=True)
class _Candidate:
    """A line with a valid payload whose account is not staged or created yet."""

    result: LineResult
    attempt_id: UUID
    #: None if the payload is already staged.
    account: ValidatedAccount | None = None
    process: StagedProcess | None = None
    #: When the version was extracted and sent, if the line is not of a file that was sent now.
    version: tuple[datetime | None, datetime] | None = None

    @property
    def number(self) -> str:
        return self.result.external_account_number or ""


class AccountWork:
    """The processing of lines with account payloads, as in `LineWork`."""

    needs_ongoing_supplier = True

    def read_plan(self, session: Session, batch: Row[Any], lines: int) -> ChunkPlan:
        limit = session.scalar(select(ServiceLimit.concurrency_limit))
        return ChunkPlan(lines, batch.organisation_id if BatchMode(batch.mode).creates else None, limit)

    def work(
        self, session: Session, job: ChunkJob, lines: Sequence[LineToDo], attempts: Sequence[UUID]
    ) -> list[LineResult]:
        results, candidates = _read_lines(session, job, lines, attempts)
        if job.mode is BatchMode.VALIDATE:
            for candidate in candidates:
                candidate.result.status = LineStatus.VALID
        else:
            everything = session.begin_nested() if job.mode is BatchMode.DRY_RUN else None
            ended = _stage_and_create(session, job, candidates)
            if everything:
                everything.rollback()
            transaction = OpenTransaction.of(session)
            complete(transaction, ended, started=False)
            if job.supplier.sends_customer_emails:
                created = [it for it in ended if it.outcome is Outcome.SUCCEEDED]
                record_customer_emails(transaction, [it.attempt.account_import_process_id for it in created])
        _note_refusals(session, job, lines, results)
        return results

    def give_up(self, session: Session, job: ChunkJob, line: LineToDo) -> LineResult:
        result = LineResult(line.line_number, LineStatus.FAILED, line.external_account_number)
        result.errors = out_of_tries().errors
        _note_refusals(session, job, [line], [result])
        return result


def _note_refusals(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo], results: Sequence[LineResult]
) -> None:
    for result in results:
        attempted = any(item.code in _OF_ATTEMPTS for item in result.errors)
        result.is_refused = job.mode.creates and result.status is LineStatus.FAILED and not attempted
    note_versions(session, job, lines, results)


def _read_lines(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo], attempts: Sequence[UUID]
) -> tuple[list[LineResult], list[_Candidate]]:
    """Return a result for each line, FAILED with its errors if it has any, and the candidates."""
    results: list[LineResult] = []
    candidates: list[_Candidate] = []
    staged, removed = _lock_staged(session, job, lines)
    for (line, result), attempt_id in zip(take_in_time(lines), attempts, strict=False):
        candidate = _Candidate(result, attempt_id)
        results.append(result)
        if (process_id := line.account_import_process_id) is not None:
            found = staged.get(process_id)
            sound = _take_staged(job, found, candidate, is_removed=process_id in removed)
        else:
            sound = _read_payload(job, line.payload or b"", candidate)
        if sound:
            candidates.append(candidate)
    return results, candidates


def _read_payload(job: ChunkJob, payload: bytes, candidate: _Candidate) -> bool:
    """Validate a payload and store the result in the candidate. Return whether it has no errors."""
    result = candidate.result
    account = read_guarded(job, result, partial(_validate, job, payload))
    if account is None:
        return False
    account.errors += find_mismatch(job, account.data)
    result.external_account_number = account.data.get("external_account_number")
    result.errors, result.warnings = account.errors, account.warnings
    if account.errors:
        return False
    result.sha256, result.payload = account.sha256, account.json
    candidate.account = account
    # The rest is in its text. The objects of a hundred accounts would push each other out of the caches.
    account.data = {"external_account_number": account.number}
    return True


def _validate(job: ChunkJob, payload: bytes) -> ValidatedAccount:
    account = validate_text(payload, job.profile, job.supplier.time_zone)
    if account.errors and (other := find_other_kind(parse_json(payload), job.kind)):
        raise other
    return account


def _lock_staged(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo]
) -> tuple[Mapping[int, Row[Any]], Set[int]]:
    """Lock and return the processes of lines of source `pending`, and the ids of those that no longer exist.

    They have their payload if it must be revalidated because the rules or the supplier's profile changed.
    Processes that are in neither are being processed elsewhere.
    """
    ids = {line.account_import_process_id for line in lines if line.account_import_process_id is not None}
    if not ids:
        return {}, ids
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
    columns: tuple[Any, ...] = (process.service_account_number, process.refused_at)
    columns += (payload, process.warnings)
    if job.replaces:
        newer = process.refused_payload.op("::")(text("text")).label("newer")
        columns += (newer, process.refused_extracted_at, process.refused_sent_at)
    locked = select(process.id, state, *columns).where(process.id.in_(ids)).with_for_update(skip_locked=True)
    found = {row.id: row for row in session.execute(locked)}
    if missing := ids - found.keys():
        missing.difference_update(session.scalars(select(process.id).where(process.id.in_(missing))))
    return found, missing


def _take_staged(job: ChunkJob, found: Row[Any] | None, candidate: _Candidate, *, is_removed: bool) -> bool:
    """Store a staged process in the candidate. Return whether its account can be created."""
    result = candidate.result
    if found is None:
        number = candidate.number
        result.refuse(
            errors.AccountNotStagedError(found=number)
            if is_removed
            else errors.AccountImportInProgressError()
        )
        return False
    state, service_number = ImportState(found.state), found.service_account_number
    if job.replaces and found.newer and state in (ImportState.IMPORTED, ImportState.PENDING):
        candidate.version = (found.refused_extracted_at, found.refused_sent_at)
        return _read_payload(job, found.newer.encode(), candidate)
    process = StagedProcess(found.id, state, service_account_number=service_number)
    if error := refusal(state, candidate.number, service_number):
        result.refuse(error, process)
        return False
    if found.refused_at and not job.options.get(INCLUDE_OLDER_VERSIONS):
        result.refuse(errors.NewerVersionRefusedError.at(write_moment(found.refused_at)))
        return False
    candidate.process = process
    if found.payload:
        return _read_payload(job, found.payload.encode(), candidate)
    result.warnings = [errors.ErrorItem(**it) for it in found.warnings or ()]
    return True


def _stage_and_create(session: Session, job: ChunkJob, candidates: list[_Candidate]) -> list[EndedAttempt]:
    """Stage the candidates and create their accounts, depending on the mode. Return the attempts made."""
    _stage(session, job, [candidate for candidate in candidates if candidate.account])
    taken = [candidate for candidate in candidates if candidate.process and not candidate.result.errors]
    if job.mode.creates:
        return _create(session, job, taken) + (_replace(session, job, candidates) if job.replaces else [])
    for candidate in taken:
        candidate.result.status = LineStatus.STAGED
    return []


def _stage(session: Session, job: ChunkJob, candidates: list[_Candidate]) -> None:
    def stage(some: Sequence[_Candidate]) -> list[StagedProcess]:
        extracted_at, sent_at = _version_of(job, some[0])
        return storing.stage(
            OpenTransaction.of(session),
            job.supplier,
            [it.account for it in some if it.account],
            profile=job.profile,
            extracted_at=extracted_at,
            sent_at=sent_at,
            is_sent=not any(it.process for it in some),
        )

    of_version: dict[object, list[_Candidate]] = {}
    for candidate in candidates:
        of_version.setdefault((candidate.version, candidate.process is None), []).append(candidate)
    outcomes: list[StagedProcess | errors.ServiceError] = [
        outcome for own in of_version.values() for outcome in each_by_itself(session, own, stage)
    ]
    candidates = [candidate for own in of_version.values() for candidate in own]
    for candidate, outcome in zip(candidates, outcomes, strict=True):
        if isinstance(outcome, errors.ServiceError):
            candidate.result.refuse(outcome)
            continue
        candidate.process = outcome
        if error := refusal_of(outcome, candidate.number, _version_of(job, candidate)[0]):
            candidate.result.refuse(error, outcome)
        elif job.mode is not BatchMode.DRY_RUN:
            candidate.result.staging_result = outcome.result
    _compare_repeated(session, candidates)


def _version_of(job: ChunkJob, candidate: _Candidate) -> tuple[datetime | None, datetime]:
    """Return when the version on a line was extracted and sent."""
    return candidate.version or (job.extracted_at, job.sent_at)


def _compare_repeated(session: Session, candidates: Sequence[_Candidate]) -> None:
    """Add a warning to lines whose account exists but was created from different data."""
    repeated = [
        (candidate.result, (candidate.process, candidate.account))
        for candidate in candidates
        if candidate.process and candidate.account and candidate.process.state is ImportState.IMPORTED
    ]
    differing = compare_with_created(OpenTransaction.of(session), [pair for _, pair in repeated])
    for (result, _), items in zip(repeated, differing, strict=True):
        result.warnings = [*result.warnings, *items]


def _create(session: Session, job: ChunkJob, candidates: list[_Candidate]) -> list[EndedAttempt]:
    def create(some: Sequence[_Candidate]) -> list[str]:
        teams = {it.process.id: job.team_of_accounts() for it in some if it.process}
        numbers = create_accounts(OpenTransaction.of(session), teams)
        return [numbers[process_id] for process_id in teams]

    session.execute(text(f"SELECT {KEEP_THE_PLAN}"))
    ended = []
    outcomes: list[str | errors.ServiceError] = each_by_itself(session, candidates, create)
    for candidate, outcome in zip(candidates, outcomes, strict=True):
        if isinstance(outcome, errors.ServiceError):
            candidate.result.refuse(outcome)
        elif job.mode is BatchMode.DRY_RUN:
            candidate.result.status = LineStatus.WOULD_IMPORT
        else:
            candidate.result.status = LineStatus.IMPORTED
            candidate.result.service_account_number = outcome
        # A process staged for the first time by the dry run will not exist, so nothing can refer to it.
        process = candidate.process
        if process and not (job.mode is BatchMode.DRY_RUN and process.result is StagingResult.STAGED):
            ended.append(_end(job, candidate.attempt_id, process.id, outcome))
    return ended


def _replace(session: Session, job: ChunkJob, candidates: Sequence[_Candidate]) -> list[EndedAttempt]:
    """Create accounts again that differ from a newer version on a line. Return the attempts made."""
    differing = [it for it in candidates if _is_newer(job, it)]

    def replace(some: Sequence[_Candidate]) -> Sequence[Replaced | errors.ServiceError]:
        versions = [
            NewVersion(it.process.id, it.account, *_version_of(job, it))
            for it in some
            if it.process and it.account
        ]
        return replace_accounts(session, job.supplier, job.profile, versions)

    outcomes = each_by_itself(session, differing, replace)
    ended, is_dry_run = [], job.mode is BatchMode.DRY_RUN
    for candidate, outcome in zip(differing, outcomes, strict=True):
        result = candidate.result
        if isinstance(outcome, errors.ServiceError):
            result.status, result.errors = LineStatus.FAILED, outcome.errors
            continue
        result.errors, result.status = [], LineStatus.WOULD_REPLACE if is_dry_run else LineStatus.REPLACED
        if not is_dry_run:
            result.staging_result = StagingResult.REPLACED
            result.warnings = [it for it in result.warnings if it.code != errors.PayloadDiffersError.code]
        if candidate.process:
            number, team = outcome.service_account_number, outcome.operations_team_id
            ended.append(_end(job, candidate.attempt_id, candidate.process.id, number, team))
    return ended


def _is_newer(job: ChunkJob, candidate: _Candidate) -> bool:
    """Return whether the account exists in an older version that says something else."""
    process, extracted_at = candidate.process, _version_of(job, candidate)[0]
    if process is None or candidate.account is None or process.state is not ImportState.IMPORTED:
        return False
    later = process.refused_later or process.is_later or process.is_of_later_extract(extracted_at)
    return not later and any(it.code == errors.PayloadDiffersError.code for it in candidate.result.warnings)


def _end(
    job: ChunkJob,
    attempt_id: UUID,
    process_id: int,
    outcome: str | errors.ServiceError,
    operations_team_id: int | None = None,
) -> EndedAttempt:
    attempt = RunningAttempt(
        id=attempt_id,
        account_import_process_id=process_id,
        operations_team_id=operations_team_id or job.team_of_accounts(),
        api_key_id=job.api_key_id,
        dry_run=job.mode is BatchMode.DRY_RUN,
        request_id=f"batch {job.chunk.batch_id}",
        address=current_origin().address,
    )
    if isinstance(outcome, errors.ServiceError):
        return EndedAttempt.with_error(attempt, outcome)
    if attempt.dry_run:
        return EndedAttempt.with_error(attempt, errors.DryRunSucceededError())
    return EndedAttempt(attempt, Outcome.SUCCEEDED, outcome)
