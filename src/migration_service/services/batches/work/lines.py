"""The lines of a chunk and their results, and the steps that accounts and added data have in common."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from traceback import extract_tb
from typing import Any, Protocol, TypeVar
from uuid import UUID

from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import ARRAY, BigInteger, Row, bindparam, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.identifiers import MAX_IDENTIFIER, identifier_fault
from migration_payloads.schemas.json import encode_json, storable_text
from migration_service import errors
from migration_service.errors import ErrorItem, ServiceError
from migration_service.models import Batch, BatchChunk
from migration_service.schemas.events import EventType
from migration_service.services.batches.intake.options import REPLACE_DIFFERING
from migration_service.services.batches.work.added_data.instructions import Answer, InstructionKey
from migration_service.services.events.recording import record
from migration_service.services.imports.storing import StagedProcess
from migration_service.services.processing.creation import explain_refusal
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchKind, BatchMode, ImportState, LineStatus, StagingResult

logger = logging.getLogger(__name__)

#: Seconds of processor time, and of wall-clock time, after which a worker validates no further lines of a
#: piece. On a busy machine the latter is reached first. The remaining work, in SQL, must fit into the time
#: limit of a task as well.
PIECE_SECONDS, PIECE_CLOCK_SECONDS = 0.1, 1.0

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The details of a chunk that a worker needs before it claims the chunk."""

    #: The number of lines to process together. Fewer after a worker died on the chunk or ran out of time, and
    #: one after the second time, so that only the faulty line fails.
    lines: int
    #: The organisation that needs a slot for each line, or None if the lines need no slots.
    slot_owner: int | None
    #: The concurrency limit in force, or None if it is off.
    limit: int | None
    #: Whether to ask payment vendors first.
    asks_vendors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkJob:
    """The settings for processing the lines of a chunk."""

    chunk: BatchChunk
    supplier: KnownSupplier
    kind: BatchKind
    mode: BatchMode
    options: Mapping[str, bool]
    #: The profile used to validate the lines.
    profile: Profile
    operations_team_id: int | None
    api_key_id: int | None
    extracted_at: datetime | None
    #: When the file arrived.
    sent_at: datetime
    #: The vendors' responses to the payment instructions in the lines.
    answers: Mapping[InstructionKey, Answer]
    #: Whether a line may wait for an account that does not exist.
    may_defer: bool = True

    @property
    def replaces(self) -> bool:
        """Return whether accounts that differ from a newer version are created again from it."""
        return bool(self.options.get(REPLACE_DIFFERING))

    def team_of_accounts(self) -> int:
        """Return the operations team of created accounts. Raise LookupError if the mode creates none."""
        if self.operations_team_id is None:
            raise LookupError(f"A batch that does {self.mode} has no operations team.")
        return self.operations_team_id


@dataclass(frozen=True, slots=True)
class LineToDo:
    """A pending line. Its payload is its own text, or the one staged for the process."""

    line_number: int
    payload: bytes | None
    external_account_number: str | None
    account_import_process_id: int | None


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
    #: The items of a line of added data as they were read, in the form in which they are compared.
    understood: list[dict[str, Any]] | None = None
    #: The hash of the payload, and the payload as it is stored, if it is valid.
    sha256: bytes | None = None
    payload: bytes | None = None
    #: The account was refused before an attempt to create it started.
    is_refused: bool = False

    def refuse(self, error: ServiceError, process: StagedProcess | None = None) -> None:
        """Record that the account was refused for this reason."""
        status = {ImportState.IMPORTED: LineStatus.ALREADY_IMPORTED, ImportState.SKIPPED: LineStatus.SKIPPED}
        self.status = status.get(process.state, LineStatus.FAILED) if process else LineStatus.FAILED
        self.errors = error.errors
        self.service_account_number = process.service_account_number if process else None


class LineWork(Protocol):
    """The processing of lines of one kind: accounts, or data to add to accounts."""

    #: Whether the supplier must be ONGOING, except to validate.
    needs_ongoing_supplier: bool

    def read_plan(self, session: Session, batch: Row[Any], lines: int) -> ChunkPlan:
        """Return the plan for at most `lines` lines, from the columns of their batch."""

    def work(
        self, session: Session, job: ChunkJob, lines: Sequence[LineToDo], attempts: Sequence[UUID]
    ) -> list[LineResult]:
        """Return the outcome of each line in the mode of its batch. `attempts` has an id for each line.

        Lines without time left are absent. A dry run is rolled back to its savepoint. The caller must commit
        the outcomes in the same transaction.
        """

    def give_up(self, session: Session, job: ChunkJob, line: LineToDo) -> LineResult:
        """Return the outcome of a line that ended too many workers."""


def take_in_time(lines: Sequence[LineToDo]) -> Iterator[tuple[LineToDo, LineResult]]:
    """Yield the lines that there is time to validate, each with a result: FAILED until that is changed."""
    processor_ends, clock_ends = time.thread_time() + PIECE_SECONDS, time.monotonic() + PIECE_CLOCK_SECONDS
    for index, line in enumerate(lines):
        if index and (time.thread_time() > processor_ends or time.monotonic() > clock_ends):
            return
        yield line, LineResult(line.line_number, LineStatus.FAILED, line.external_account_number)


def read_guarded(job: ChunkJob, result: LineResult, read: Callable[[], _Read]) -> _Read | None:
    """Return the result of `read` for the text of a line. If it fails, record the reason and return None."""
    try:
        return read()
    except ServiceError as error:
        result.errors = error.errors
    except _FAULTS as error:
        # Not its message, which could contain values of the line.
        place = extract_tb(error.__traceback__)[-1]
        logger.error(
            "Line %d of batch %s failed: %s in %s, line %s",
            *(result.line_number, job.chunk.batch_id, type(error).__name__, place.filename, place.lineno),
        )
        result.refuse(errors.LineFailedUnexpectedlyError())
    return None


#: Exceptions caused by defects in the validation, unlike a lost connection or the time limit of a task.
_FAULTS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(MemoryError, RuntimeError, TypeError, ValueError),
)


def find_mismatch(job: ChunkJob, data: Mapping[str, Any]) -> list[ErrorItem]:
    """Return an error if the data names another supplier than that of the batch."""
    found, expected = data.get("import_supplier", job.supplier.code), job.supplier.code
    return (
        [] if found == expected else errors.ImportSupplierMismatchError(found=found, expected=expected).errors
    )


#: Members that account payloads share with other bodies.
_SHARED = {"import_supplier", "external_account_number", "statements"}
#: The members that identify a line of each kind, in order of precedence.
_MARKS = {
    BatchKind.ACCOUNTS: sorted(AccountImportSchema().fields.keys() - _SHARED),
    BatchKind.NOTES: ["notes"],
    BatchKind.TRANSACTIONS: ["transactions"],
    BatchKind.STATEMENTS: ["statements"],
    BatchKind.PAYMENT_INSTRUCTIONS: ["vendor", "reference", "type"],
}


def find_other_kind(payload: Any, kind: BatchKind) -> errors.LineKindMismatchError | None:
    """Return an error if a line has members of another kind and none that are specific to its own kind."""
    if not isinstance(payload, dict):
        return None
    found = {it: mark for it, marks in _MARKS.items() for mark in reversed(marks) if mark in payload}
    if kind in found and not (kind is BatchKind.STATEMENTS and BatchKind.ACCOUNTS in found):
        return None
    other = next(iter(found), None)
    return errors.LineKindMismatchError(found[other], other, kind) if other else None


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
            refused = errors.AccountImportInProgressError()
        if refused is None:
            raise
    if len(items) == 1:
        return [refused]
    middle = len(items) // 2
    first = each_by_itself(session, items[:middle], action, explain)
    return first + each_by_itself(session, items[middle:], action, explain)


def write_outcomes(session: Session, batch_id: UUID, results: Sequence[LineResult]) -> None:
    """Store the outcomes of lines, with one statement."""
    rows = [
        {
            "line_number": result.line_number,
            "status": result.status,
            "external_account_number": storable_text(result.external_account_number),
            "service_account_number": result.service_account_number,
            "errors": _storable_items(result.errors),
            "warnings": _storable_items(result.warnings),
            "staging_result": result.staging_result,
            "understood": result.understood,
        }
        for result in results
    ]
    numbers = [result.line_number for result in results]
    values = {"batch_id": batch_id, "line_numbers": numbers, "results": encode_json(rows).decode()}
    session.execute(_WRITE_OUTCOMES, values)


def tell_outcomes(session: Session, batch: Batch, results: Sequence[LineResult]) -> None:
    """Record the event of lines that have their outcome, with the numbers and codes of each."""
    ended = [it for it in results if not it.status.is_open]
    if not ended:
        return
    data = {
        "batch_id": batch.id,
        "kind": batch.kind,
        "mode": batch.mode,
        "counts": Counter(it.status for it in ended),
        "lines": [_told(it) for it in ended],
    }
    owner, supplier = batch.organisation_id, batch.import_supplier_id
    record(session, EventType.BATCH_PROGRESSED, data, organisation_id=owner, import_supplier_id=supplier)


def _told(result: LineResult) -> dict[str, Any]:
    line: dict[str, Any] = {"line_number": result.line_number, "status": result.status}
    number = result.external_account_number
    # That of a refused line can be any text.
    if number and len(number) <= MAX_IDENTIFIER and not identifier_fault(number):
        line["external_account_number"] = number
    if result.service_account_number:
        line["service_account_number"] = result.service_account_number
    if result.errors:
        line["codes"] = sorted({item.code for item in result.errors})
    return line


def _storable_items(items: Sequence[ErrorItem]) -> list[dict[str, str | None]] | None:
    # Otherwise the database would refuse the outcomes of the whole chunk because of one line.
    return [{name: storable_text(text) for name, text in item.to_dict().items()} for item in items] or None


# The numbers are there twice, so that no plan reads all lines of the batch to join them.
_WRITE_OUTCOMES = text("""
    UPDATE batch_line SET status = result.status, external_account_number = result.external_account_number,
        service_account_number = result.service_account_number,
        errors = result.errors, warnings = result.warnings, staging_result = result.staging_result,
        understood = result.understood
    FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS result (
        line_number bigint, status text, external_account_number text, service_account_number text,
        errors jsonb, warnings jsonb, staging_result text, understood jsonb)
    WHERE batch_id = :batch_id AND batch_line.line_number = ANY (:line_numbers)
      AND batch_line.line_number = result.line_number
""").bindparams(bindparam("line_numbers", type_=ARRAY(BigInteger)))
