"""The totals of a book by outcome: given by the supplier, in the file, refused, staged, created.

Each measure of `migration_payloads.files.totals` has one row. A comparison adds up what is staged, skipped
and created (`created_accounts`), and here the lines of which nothing is staged, as they were sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Uuid, bindparam, select, text
from sqlalchemy.orm import Session

from migration_payloads.files.totals import FileTotals, list_measures
from migration_service.db.base import literals
from migration_service.db.cancelling import allow_minutes
from migration_service.errors import DuplicateLineError, LineTooLongError
from migration_service.models import Batch
from migration_service.services.batches.intake.control_totals import report_control_totals, sort_measures
from migration_service.services.reconciliation.differences import Totals
from migration_service.services.reconciliation.submitted import ACCOUNTS_OF_BATCH, BATCH_ID, KEEP_UNSTAGED
from migration_service.states import BatchKind, BatchMode, BatchSource, LineStatus

#: The numbers of lines that one piece of a comparison adds up, and whose text is read together.
LINES, _TOGETHER = 10_000, 50
#: The largest number of files listed for a supplier.
MOST_FILES = 50
_NOTHING = Decimal(0)
#: Measures of an account that no file has totals of.
_NO_TOTAL = ("customers", "meter_points", "agreements")


@dataclass(slots=True)
class BookTotal:
    """One measure of a book by outcome, as `BookTotalAnswerSchema` describes it."""

    measure: str
    given: Decimal | None = None
    file: Decimal | None = None
    difference: Decimal | None = None
    refused: Decimal = _NOTHING
    waiting: Decimal = _NOTHING
    acknowledged: Decimal = _NOTHING
    repeated: Decimal = _NOTHING
    staged: Decimal = _NOTHING
    skipped: Decimal = _NOTHING
    created: Decimal = _NOTHING
    unaccounted: Decimal | None = None


@dataclass(frozen=True, slots=True)
class SentBook:
    """A file of accounts, as `SentBookAnswerSchema` describes it."""

    batch_id: UUID
    file_name: str | None
    file_sha256: str | None
    file_bytes: int | None
    control_totals_differing: int | None
    control_totals_as_given: bool | None
    is_superseded: bool


@dataclass(slots=True)
class BookTotals:
    """The totals of a book, as `BookTotalsAnswerSchema` describes them."""

    totals: list[BookTotal] = field(default_factory=list)
    given: bool | None = None
    differing: int | None = None
    as_given: bool | None = None
    has_other_versions: bool = False
    unreadable_lines: int = 0
    unreadable_amounts: int = 0
    files: list[SentBook] = field(default_factory=list)

    @property
    def unaccounted(self) -> int:
        """Return the number of measures whose values are in no column, although nobody sent other ones."""
        return 0 if self.has_other_versions else sum(bool(total.unaccounted) for total in self.totals)

    @property
    def contradicted(self) -> int:
        """Return the number of files that do not match their control totals and were not sent again."""
        return sum(it.control_totals_as_given is False and not it.is_superseded for it in self.files)


def add_unstaged_lines(
    session: Session, values: Mapping[str, Any], totals: Totals, place: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Add the lines of which nothing is staged to `totals`, starting after `place`.

    `values` has the comparison, its supplier and its batch. Return the next place, or None if none is left.
    """
    if place is None:
        allow_minutes(session)
        session.execute(KEEP_UNSTAGED, values)
    following = _add_lines(session, _LIST_UNSTAGED, values, totals, place or {"number": 0})
    if following is None:
        session.execute(_FORGET_UNSTAGED, values)
    return following


def add_repeated_lines(
    session: Session, values: Mapping[str, Any], totals: Totals, place: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Do the same for the lines of a batch that repeat the account of an earlier line."""
    return _add_lines(session, _LIST_REPEATED, values, totals, place or {"line_number": 0})


def _add_lines(
    session: Session, statement: Any, values: Mapping[str, Any], totals: Totals, place: Mapping[str, Any]
) -> dict[str, Any] | None:
    found: dict[str, FileTotals] = {}
    number, last = 0, None
    pieces = {"yield_per": _TOGETHER}
    rows = session.execute(statement, {**values, **place, "limit": LINES}, execution_options=pieces)
    for last in rows:
        number += 1
        part = _PARTS[last.status]
        found.setdefault(part, FileTotals()).add_line(last.payload)
        if last.is_acknowledged and part != "skipped":
            found.setdefault("acknowledged", FileTotals()).add_line(last.payload)
    for part, lines in found.items():
        totals.add_part(part, list_measures(lines.to_dict()))
        if part != "acknowledged":
            totals.unreadable_lines += lines.unreadable_lines
            totals.unreadable_amounts += lines.unreadable_amounts
    return {name: getattr(last, name) for name in place} if number == LINES else None


#: The parts of a book by the status of a line. One without a status repeats the account of an earlier line.
_PARTS: dict[str | None, str] = {
    LineStatus.FAILED: "refused",
    LineStatus.PENDING: "waiting",
    LineStatus.SKIPPED: "skipped",
    None: "repeated",
}


def read_book(session: Session, import_supplier_id: int, totals: Totals, batch: Batch | None) -> BookTotals:
    """Return the book of a comparison of accounts: of everything that was sent, or of a batch."""
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch and batch.id}
    book = BookTotals(
        files=[
            _describe_file(session, values, batch_id) for batch_id in session.scalars(_LIST_FILES, values)
        ],
        unreadable_lines=totals.unreadable_lines,
        unreadable_amounts=totals.unreadable_amounts,
    )
    parts = {
        part: {measure: value for measure, value in sums.items() if measure not in _NO_TOTAL}
        for part, sums in totals.parts.items()
    }
    if batch is None:
        book.totals = _join(parts, whole=False)
        return book
    report = report_control_totals(batch)
    if report.totals:
        book.given, book.differing = report.control_totals is not None, report.differing
        book.as_given = report.as_given
        parts["file"] = {total.measure: total.file for total in report.totals}
        given = {total.measure: total.given for total in report.totals if total.given is not None}
        parts["given"] = given
        book.has_other_versions = bool(session.scalar(_HAS_OTHER_VERSIONS, values))
    book.totals = _join(parts, whole=not batch.lines_removed_at)
    return book


def add_files(session: Session, import_supplier_id: int, book: BookTotals) -> BookTotals:
    """Return the book of a supplier with the control totals and the sums of all files that were stored.

    If an account is in several of them, they say more than was sent, and what is unaccounted for is unknown.
    """
    stored = select(Batch).where(
        Batch.import_supplier_id == import_supplier_id,
        Batch.mode.in_((BatchMode.STAGE, BatchMode.IMPORT)),
    )
    totals = {it.measure: replace(it, file=_NOTHING) for it in book.totals}
    found = [it for batch in session.scalars(stored) for it in report_control_totals(batch).totals]
    for it in found:
        total = totals.setdefault(it.measure, BookTotal(it.measure, file=_NOTHING))
        total.file = (total.file or _NOTHING) + it.file
        if it.given is not None:
            total.given = (total.given or _NOTHING) + it.given
            total.difference = (total.difference or _NOTHING) + (it.difference or _NOTHING)
    accounts = totals.get("accounts")
    if accounts is not None and accounts.file == _add_parts(accounts):
        for total in totals.values():
            total.unaccounted = (total.file or _NOTHING) - _add_parts(total)
    is_given = any(it.given is not None for it in found)
    return replace(
        book,
        totals=[totals[measure] for measure in sort_measures(set(totals))],
        given=is_given,
        differing=sum(bool(it.difference) for it in totals.values()) if is_given else None,
        as_given=not book.contradicted if is_given else None,
    )


def _add_parts(total: BookTotal) -> Decimal:
    parts = (total.refused, total.waiting, total.repeated, total.staged, total.skipped, total.created)
    return sum(parts, _NOTHING)


def _describe_file(session: Session, values: dict[str, Any], batch_id: UUID) -> SentBook:
    batch = session.get_one(Batch, batch_id)
    report = report_control_totals(batch)
    superseded = report.as_given is False and values["batch_id"] is None
    return SentBook(
        batch.id,
        batch.file_name,
        batch.file_sha256.hex() if batch.file_sha256 else None,
        batch.file_bytes,
        report.differing,
        report.as_given,
        superseded and bool(session.scalar(_IS_SUPERSEDED, {**values, "batch_id": batch_id})),
    )


def _join(parts: dict[str, dict[str, Decimal]], *, whole: bool) -> list[BookTotal]:
    """Return a row for each measure. `whole` tells whether all lines of the file are kept."""
    totals = []
    for measure in sort_measures({measure for found in parts.values() for measure in found}):
        total = BookTotal(measure)
        for name, found in parts.items():
            setattr(total, name, found.get(measure, None if name == "given" else _NOTHING))
        if total.file is not None:
            if total.given is not None:
                total.difference = total.file - total.given
            if whole:
                total.unaccounted = total.file - _add_parts(total)
        totals.append(total)
    return totals


#: The lines that are kept for a comparison because nothing of them is staged, as sent. A line that was too
#: long is NULL.
_LIST_UNSTAGED = text("""
    SELECT line.payload, kept.status, kept.is_acknowledged, kept.number
    FROM (SELECT * FROM compared_line WHERE comparison_id = :comparison_id AND number > :number
          ORDER BY number LIMIT :limit) AS kept
    CROSS JOIN LATERAL (
        SELECT payload FROM batch_line
        WHERE batch_id = kept.batch_id AND line_number = kept.line_number OFFSET 0) AS line
    ORDER BY kept.number
""")
_FORGET_UNSTAGED = text("DELETE FROM compared_line WHERE comparison_id = :comparison_id")

#: The lines of a batch that repeat the account of an earlier line, as sent.
_LIST_REPEATED = text(f"""
    SELECT payload, line_number, NULL AS status, false AS is_acknowledged FROM batch_line
    WHERE batch_id = :batch_id AND line_number > :line_number
      AND errors @> '[{{"code": "{DuplicateLineError.code}"}}]'
    ORDER BY line_number LIMIT :limit
""").bindparams(BATCH_ID)

_KEEPING = literals([BatchMode.STAGE, BatchMode.IMPORT])

#: The newest files of accounts of a supplier, or the file of one batch.
_LIST_FILES = text(f"""
    SELECT id FROM batch
    WHERE import_supplier_id = :import_supplier_id AND kind = '{BatchKind.ACCOUNTS}'
      AND source = '{BatchSource.UPLOAD}' AND (:batch_id IS NULL OR id = :batch_id)
    ORDER BY id DESC LIMIT {MOST_FILES}
""").bindparams(BATCH_ID)

#: Whether nothing comes from a file any more: it only validated and another one followed, or later files
#: that were staged have each of its accounts.
_IS_SUPERSEDED = text(f"""
    SELECT CASE WHEN mode NOT IN ({_KEEPING}) THEN EXISTS (
               SELECT FROM batch AS later
               WHERE later.import_supplier_id = batch.import_supplier_id AND later.id > batch.id
                 AND later.kind = batch.kind AND later.source = '{BatchSource.UPLOAD}')
           ELSE lines_removed_at IS NULL AND NOT EXISTS (
               SELECT FROM batch_line AS line
               WHERE line.batch_id = batch.id AND NOT EXISTS (
                   SELECT FROM batch AS later JOIN batch_line AS again ON again.batch_id = later.id
                   WHERE later.import_supplier_id = batch.import_supplier_id AND later.id > batch.id
                     AND later.kind = batch.kind AND later.source = '{BatchSource.UPLOAD}'
                     AND later.mode IN ({_KEEPING})
                     AND again.external_account_number = line.external_account_number)) END
    FROM batch WHERE id = :batch_id
""").bindparams(bindparam("batch_id", type_=Uuid))

#: Whether an account on the lines of a batch has a payload that the batch did not stage, or was erased, so
#: that the text of its line is removed.
_HAS_OTHER_VERSIONS = text(f"""
    SELECT EXISTS (
        SELECT FROM {ACCOUNTS_OF_BATCH} AS process
        WHERE process.staged_request_id IS DISTINCT FROM 'batch ' || CAST(:batch_id AS text))
        OR EXISTS (
        SELECT FROM batch_line WHERE batch_id = :batch_id AND payload IS NULL
          AND NOT coalesce(errors @> '[{{"code": "{LineTooLongError.code}"}}]', false))
""").bindparams(BATCH_ID)
