"""Adding the data of a chunk's lines to their accounts, many lines together. Each has its own outcome.

Schemas, rules and the writing functions are those of the single endpoints. If the database refuses some
lines, they are halved until the faulty ones are found.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from psycopg.errors import LockNotAvailable
from sqlalchemy import Row, delete
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from migration_payloads.schemas.json import parse_json
from migration_service import errors
from migration_service.db.base import one_of
from migration_service.models import Acknowledgement
from migration_service.services.accounts import added_data
from migration_service.services.batches.work.added_data.deferral import (
    find_coming,
    find_deferred,
    find_existing,
)
from migration_service.services.batches.work.added_data.operations import OPERATIONS, Operation
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
from migration_service.services.processing.attempts import out_of_tries
from migration_service.services.processing.creation import is_refusal
from migration_service.states import BatchKind, BatchMode, LineStatus

logger = logging.getLogger(__name__)

#: The number of lines processed together. Their accounts are locked together, so this should be quick.
PIECE_LINES = 250


@dataclass(slots=True)
class _Candidate:
    """A valid line, and its account once that has been found."""

    result: LineResult
    body: added_data.PostedBody
    checked: added_data.Checked
    account: added_data.OpenAccount | None = None

    @property
    def number(self) -> str:
        return str(self.body.data["external_account_number"])

    def defer(self, reason: errors.ServiceError) -> None:
        """Defer the line. The reason is shown as a warning."""
        self.result.status = LineStatus.DEFERRED
        self.result.warnings = reason.errors

    def finish(self, status: LineStatus) -> None:
        self.result.status = status
        self.result.warnings = self.checked.warnings + self.result.warnings

    def fail(self, found: Sequence[errors.ErrorItem]) -> None:
        self.result.errors = list(found)
        self.finish(LineStatus.FAILED)


class AddedDataWork:
    """The processing of lines with data to add to accounts, as in `LineWork`."""

    needs_ongoing_supplier = False

    def read_plan(self, _session: Session, batch: Row[Any], lines: int) -> ChunkPlan:
        asks_vendors = batch.kind == BatchKind.PAYMENT_INSTRUCTIONS and batch.mode != BatchMode.VALIDATE
        return ChunkPlan(min(lines, PIECE_LINES), slot_owner=None, limit=None, asks_vendors=asks_vendors)

    def work(
        self, session: Session, job: ChunkJob, lines: Sequence[LineToDo], _attempts: Sequence[UUID]
    ) -> list[LineResult]:
        operation = OPERATIONS[job.kind]
        results, candidates = _read_lines(job, operation, lines)
        if job.mode is BatchMode.VALIDATE:
            for candidate in candidates:
                if candidate.checked.errors:
                    candidate.fail(candidate.checked.errors)
                else:
                    candidate.finish(LineStatus.VALID)
            return results
        everything = session.begin_nested() if job.mode is BatchMode.DRY_RUN else None
        sound = []
        for candidate in candidates:
            if candidate.checked.errors and not operation.adds_faulty:
                candidate.fail(candidate.checked.errors)
            else:
                sound.append(candidate)
        _find_accounts(session, job, sound)
        _add(session, job, operation, [candidate for candidate in sound if candidate.account])
        if everything:
            everything.rollback()
        else:
            _void_acknowledgements(session, job, results)
        return [result for result in results if result.status is not LineStatus.PENDING]

    def give_up(self, _session: Session, _job: ChunkJob, line: LineToDo) -> LineResult:
        found = errors.LineFailedUnexpectedlyError(out_of_tries().detail).errors
        return LineResult(line.line_number, LineStatus.FAILED, line.external_account_number, errors=found)


def read_wanted(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo]
) -> list[tuple[added_data.OpenAccount, dict[str, Any]]]:
    """Return the data that valid lines add to existing accounts, without locking anything."""
    _, candidates = _read_lines(job, OPERATIONS[job.kind], lines)
    sound = [candidate for candidate in candidates if not candidate.checked.errors]
    accounts = added_data.find_accounts(session, job.supplier, {candidate.number for candidate in sound})
    return [(accounts[it.number], it.body.data) for it in sound if it.number in accounts]


def _read_lines(
    job: ChunkJob, operation: Operation, lines: Sequence[LineToDo]
) -> tuple[list[LineResult], list[_Candidate]]:
    results: list[LineResult] = []
    candidates: list[_Candidate] = []
    _, today = added_data.terms_of(job.supplier)
    for line, result in take_in_time(lines):
        results.append(result)
        body = read_guarded(job, result, partial(_load, job, operation, line.payload or b""))
        if body is None:
            continue
        result.external_account_number = body.data.get("external_account_number")
        if body.errors and result.external_account_number is None:
            result.errors = body.errors
            continue
        checked = read_guarded(job, result, partial(operation.check, body, job.profile, today))
        if checked is not None:
            candidates.append(_Candidate(result, body, checked))
    return results, candidates


def _load(job: ChunkJob, operation: Operation, payload: bytes) -> added_data.PostedBody:
    """Return the body of a line, with the errors that only batches can have."""
    value = parse_json(payload)
    if other := find_other_kind(value, job.kind):
        raise other
    body = added_data.load_posted(operation.schema, value)
    dry_run = errors.DryRunInLineError().errors if body.dry_run else []
    return replace(body, errors=[*body.errors, *find_mismatch(job, body.data), *dry_run])


def _find_accounts(session: Session, job: ChunkJob, candidates: Sequence[_Candidate]) -> None:
    """Lock the accounts of the candidates. Candidates without an account are deferred or fail."""
    numbers = {candidate.number for candidate in candidates}
    deferred = find_deferred(session, job.chunk, numbers)
    accounts = _lock_accounts(session, job, numbers - deferred)
    missing = numbers - deferred - accounts.keys()
    # The order matters; see `find_coming`.
    coming = find_coming(session, job.supplier.id, missing)
    busy = find_existing(session, job.supplier.id, missing) if missing else set()
    for candidate in candidates:
        account = accounts.get(candidate.number)
        if isinstance(account, added_data.OpenAccount):
            candidate.account = account
        elif isinstance(account, errors.AccountErasedError):
            candidate.fail(account.errors)
        elif candidate.checked.errors:
            candidate.fail(candidate.checked.errors)
        elif candidate.number in busy:
            candidate.defer(errors.AccountBusyError())
        elif job.may_defer and (candidate.number in coming or candidate.number in deferred):
            candidate.defer(errors.AccountImportInProgressError())
        else:
            error = errors.AccountNotFoundInBodyError
            candidate.fail([errors.ErrorItem(error.code, error.default_detail, "external_account_number")])


def _lock_accounts(
    session: Session, job: ChunkJob, numbers: set[str]
) -> dict[str, added_data.OpenAccount | errors.AccountErasedError]:
    """Lock the accounts, except those that another transaction keeps locked for long."""
    supplier = replace(job.supplier, profile=job.profile)
    try:
        with session.begin_nested():
            return added_data.open_accounts(session, supplier, numbers)
    except DBAPIError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
    return added_data.open_accounts(session, supplier, numbers, skip_locked=True)


def _add(session: Session, job: ChunkJob, operation: Operation, candidates: Sequence[_Candidate]) -> None:
    def add(some: Sequence[_Candidate]) -> Sequence[added_data.Added | errors.ServiceError | None]:
        additions = [
            added_data.Addition(it.account, it.body.data, it.checked.errors) for it in some if it.account
        ]
        return operation.add(session, additions, job)

    outcomes = each_by_itself(session, candidates, add, _explain)
    for candidate, outcome in zip(candidates, outcomes, strict=True):
        if candidate.account:
            candidate.result.service_account_number = candidate.account.service_account_number
        if outcome is None:
            candidate.result.status = LineStatus.PENDING
        elif job.may_defer and isinstance(outcome, errors.PaymentVendorUnavailableError):
            candidate.defer(outcome)
        elif isinstance(outcome, errors.ServiceError):
            candidate.fail(outcome.errors)
        else:
            _accept(job, operation, candidate, outcome)


def _void_acknowledgements(session: Session, job: ChunkJob, results: Sequence[LineResult]) -> None:
    """Remove the acknowledgements of lines that were added after all, after a retry or a pause.

    Such a line would be neither compared nor taken back. The audit has who acknowledged it.
    """
    added = [it.line_number for it in results if it.status in (LineStatus.ADDED, LineStatus.ALREADY_ADDED)]
    void = delete(Acknowledgement).where(
        Acknowledgement.import_supplier_id == job.supplier.id,
        Acknowledgement.external_account_number.is_(None),
        Acknowledgement.batch_id == job.chunk.batch_id,
        one_of(Acknowledgement.line_number.expression, added),
    )
    session.execute(void)


def _explain(error: DBAPIError) -> errors.ServiceError | None:
    """Return the error of a line that the database refused to store, or None for any other failure."""
    if not is_refusal(error):
        return None
    # Its message could contain values of the line.
    logger.error("The database refused a line: %s", type(error.orig).__name__)
    return errors.LineFailedUnexpectedlyError("The database refused a value of the line.")


def _accept(job: ChunkJob, operation: Operation, candidate: _Candidate, added: added_data.Added) -> None:
    """Record that a line was accepted. If some of its items existed already, each gets a warning."""
    candidate.result.warnings = added.warnings
    if job.mode is not BatchMode.DRY_RUN:
        candidate.result.understood = operation.understand(candidate.body.data)
    if not any(added.is_new):
        candidate.finish(LineStatus.ALREADY_ADDED)
        return
    if not all(added.is_new):
        candidate.result.warnings += _find_known(operation, candidate.body.data, added.is_new)
    candidate.finish(LineStatus.WOULD_ADD if job.mode is BatchMode.DRY_RUN else LineStatus.ADDED)


def _find_known(operation: Operation, data: dict[str, Any], is_new: Sequence[bool]) -> list[errors.ErrorItem]:
    """Return a warning for each item that was not added because it exists already or is repeated."""
    own = set()
    warnings = []
    for index, item in enumerate(map(operation.identify, data[operation.member])):
        if is_new[index]:
            own.add(item)
            continue
        error = errors.AlreadyAddedError.within_line() if item in own else errors.AlreadyAddedError()
        warnings += [replace(it, attr=f"{operation.member}.{index}") for it in error.errors]
    return warnings
