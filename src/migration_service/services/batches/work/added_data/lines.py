"""Adding the data of a chunk's lines to their accounts, many lines together. Each has its own outcome.

Schemas, rules and the writing functions are those of the single endpoints. If the database refuses some
lines, they are halved until the faulty ones are found.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from psycopg.errors import LockNotAvailable
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from migration_service.errors import (
    AccountBusyError,
    AccountErasedError,
    AccountImportInProgressError,
    AccountNotFoundInBodyError,
    AlreadyAddedError,
    DryRunInLineError,
    ErrorItem,
    ImportSupplierMismatchError,
    LineFailedUnexpectedlyError,
    PaymentVendorUnavailableError,
    ServiceError,
)
from migration_service.models import BatchChunk
from migration_service.schemas.json import parse_json
from migration_service.services.accounts.added_data import (
    Addition,
    Checked,
    OpenAccount,
    PostedBody,
    find_accounts,
    load_posted,
    open_accounts,
    terms_of,
)
from migration_service.services.batches.work.added_data.deferral import (
    find_coming,
    find_deferred,
    find_existing,
)
from migration_service.services.batches.work.added_data.marks import find_other_kind
from migration_service.services.batches.work.added_data.operations import KINDS, Added, Kind
from migration_service.services.batches.work.attempts import ChunkJob, LineToDo
from migration_service.services.batches.work.lines import (
    LineResult,
    each_by_itself,
    read_guarded,
)
from migration_service.services.batches.work.processor_time import PieceTime
from migration_service.services.processing.creation import is_refusal
from migration_service.states import BatchMode, LineStatus

logger = logging.getLogger(__name__)

#: The number of lines processed together. Their accounts are locked together, so this should be quick.
PIECE_LINES = 250


@dataclass(slots=True)
class _Candidate:
    """A valid line, and its account once that has been found."""

    result: LineResult
    body: PostedBody
    checked: Checked
    account: OpenAccount | None = None

    @property
    def number(self) -> str:
        return str(self.body.data["external_account_number"])

    def defer(self, reason: ServiceError) -> None:
        """Defer the line. The reason is shown as a warning."""
        self.result.status = LineStatus.DEFERRED
        self.result.warnings = reason.errors


def work_on_added_lines(
    session: Session, job: ChunkJob, chunk: BatchChunk, lines: Sequence[LineToDo], *, may_defer: bool
) -> list[LineResult]:
    """Return the outcome of each line in the mode of its batch. Lines without time left are absent.

    A dry run is rolled back to its savepoint. Without `may_defer` no line waits for an account that does not
    exist. The caller must commit the outcomes in the same transaction.
    """
    kind = KINDS[job.kind]
    results, candidates = _read_lines(job, kind, lines)
    if job.mode is BatchMode.VALIDATE:
        for candidate in candidates:
            _finish(candidate, LineStatus.VALID, candidate.checked.errors)
        return results
    everything = session.begin_nested() if job.mode is BatchMode.DRY_RUN else None
    sound = []
    for candidate in candidates:
        if candidate.checked.errors and not kind.adds_faulty:
            _finish(candidate, LineStatus.FAILED, candidate.checked.errors)
        else:
            sound.append(candidate)
    _find_accounts(session, job, chunk, sound, may_defer=may_defer)
    opened = [candidate for candidate in sound if candidate.account]
    _add(session, job, kind, opened, may_defer=may_defer)
    if everything:
        everything.rollback()
    return [result for result in results if result.status is not LineStatus.PENDING]


def read_wanted(
    session: Session, job: ChunkJob, lines: Sequence[LineToDo]
) -> list[tuple[OpenAccount, dict[str, Any]]]:
    """Return the data that valid lines add to existing accounts, without locking anything."""
    _, candidates = _read_lines(job, KINDS[job.kind], lines)
    sound = [candidate for candidate in candidates if not candidate.checked.errors]
    accounts = find_accounts(session, job.supplier, {candidate.number for candidate in sound})
    return [(accounts[it.number], it.body.data) for it in sound if it.number in accounts]


def _read_lines(
    job: ChunkJob, kind: Kind, lines: Sequence[LineToDo]
) -> tuple[list[LineResult], list[_Candidate]]:
    time_left = PieceTime()
    results: list[LineResult] = []
    candidates: list[_Candidate] = []
    _, today = terms_of(job.supplier)
    for line in lines:
        if results and time_left.is_over():
            break
        result = LineResult(line.line_number, LineStatus.FAILED, line.external_account_number)
        results.append(result)
        body = read_guarded(job, result, partial(_load, job, kind, line.payload or b""))
        if body is None:
            continue
        result.external_account_number = body.data.get("external_account_number")
        if body.errors and body.data.get("external_account_number") is None:
            result.errors = body.errors
            continue
        checked = read_guarded(job, result, partial(kind.check, body, job.profile, today))
        if checked is not None:
            candidates.append(_Candidate(result, body, checked))
    return results, candidates


def _load(job: ChunkJob, kind: Kind, payload: bytes) -> PostedBody:
    """Return the body of a line, with the errors that only batches can have."""
    value = parse_json(payload)
    if other := find_other_kind(value, job.kind):
        raise other
    body = load_posted(kind.schema, value)
    errors = list(body.errors)
    found = body.data.get("import_supplier", job.supplier.code)
    if found != job.supplier.code:
        errors += ImportSupplierMismatchError(found=found, expected=job.supplier.code).errors
    if body.dry_run:
        errors += DryRunInLineError().errors
    return replace(body, errors=errors)


def _finish(candidate: _Candidate, status: LineStatus, errors: Sequence[ErrorItem] = ()) -> None:
    result = candidate.result
    result.status = LineStatus.FAILED if errors else status
    result.errors = list(errors)
    result.warnings = candidate.checked.warnings + result.warnings


def _find_accounts(
    session: Session, job: ChunkJob, chunk: BatchChunk, candidates: Sequence[_Candidate], *, may_defer: bool
) -> None:
    """Lock the accounts of the candidates. Candidates without an account are deferred or fail."""
    numbers = {candidate.number for candidate in candidates}
    held = find_deferred(session, chunk, numbers)
    accounts = _lock_accounts(session, job, numbers - held)
    missing = numbers - held - accounts.keys()
    # The order matters; see `find_coming`.
    coming = find_coming(session, job.supplier.id, missing)
    busy = find_existing(session, job.supplier.id, missing) if missing else set()
    for candidate in candidates:
        account = accounts.get(candidate.number)
        if isinstance(account, OpenAccount):
            candidate.account = account
        elif isinstance(account, AccountErasedError):
            _finish(candidate, LineStatus.FAILED, account.errors)
        elif candidate.checked.errors:
            _finish(candidate, LineStatus.FAILED, candidate.checked.errors)
        elif candidate.number in busy:
            candidate.defer(AccountBusyError())
        elif may_defer and (candidate.number in coming or candidate.number in held):
            candidate.defer(AccountImportInProgressError())
        else:
            _finish(candidate, LineStatus.FAILED, _not_found())


def _lock_accounts(
    session: Session, job: ChunkJob, numbers: set[str]
) -> dict[str, OpenAccount | AccountErasedError]:
    """Lock the accounts, except those that another transaction keeps locked for long."""
    supplier = replace(job.supplier, profile=job.profile)
    try:
        with session.begin_nested():
            return open_accounts(session, supplier, numbers)
    except DBAPIError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
    return open_accounts(session, supplier, numbers, skip_locked=True)


def _not_found() -> list[ErrorItem]:
    error = AccountNotFoundInBodyError
    return [ErrorItem(error.code, error.default_detail, "external_account_number")]


def _add(
    session: Session, job: ChunkJob, kind: Kind, candidates: Sequence[_Candidate], *, may_defer: bool
) -> None:
    def add(some: Sequence[_Candidate]) -> Sequence[Added | ServiceError | None]:
        additions = [Addition(it.account, it.body.data, it.checked.errors) for it in some if it.account]
        return kind.add(session, additions, job)

    for candidate, outcome in zip(
        candidates, each_by_itself(session, candidates, add, _explain), strict=True
    ):
        if candidate.account:
            candidate.result.service_account_number = candidate.account.service_account_number
        if outcome is None:
            candidate.result.status = LineStatus.PENDING
        elif may_defer and isinstance(outcome, PaymentVendorUnavailableError):
            candidate.defer(outcome)
        elif isinstance(outcome, ServiceError):
            _finish(candidate, LineStatus.FAILED, outcome.errors)
        else:
            _settle(job, kind, candidate, outcome)


def _explain(error: DBAPIError) -> ServiceError | None:
    """Return the error of a line that the database refused to store, or None for any other failure."""
    if not is_refusal(error):
        return None
    # Its message could contain values of the line.
    logger.error("The database refused a line: %s", type(error.orig).__name__)
    return LineFailedUnexpectedlyError("The database refused a value of the line.")


def _settle(job: ChunkJob, kind: Kind, candidate: _Candidate, added: Added) -> None:
    """Record that a line was accepted. If some of its items existed already, each gets a warning."""
    candidate.result.warnings = added.warnings
    if not any(added.is_new):
        _finish(candidate, LineStatus.ALREADY_ADDED)
        return
    if not all(added.is_new):
        candidate.result.warnings += _find_known(kind, candidate.body.data[kind.member], added.is_new)
    dry_run = job.mode is BatchMode.DRY_RUN
    _finish(candidate, LineStatus.WOULD_ADD if dry_run else LineStatus.ADDED)


def _find_known(kind: Kind, items: Sequence[dict[str, Any]], is_new: Sequence[bool]) -> list[ErrorItem]:
    """Return a warning for each item that was not added because it exists already or is repeated."""
    own = set()
    warnings = []
    for index, item in enumerate(items):
        if is_new[index]:
            own.add(kind.identify(item))
            continue
        error = AlreadyAddedError.within_line() if kind.identify(item) in own else AlreadyAddedError()
        warnings += [replace(it, attr=f"{kind.member}.{index}") for it in error.errors]
    return warnings
