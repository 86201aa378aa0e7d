"""The totals of a book by outcome: given by the supplier, in the file, refused, staged, created.

Each measure of `migration_payloads.files.totals` has one row. Refused amounts are read from the lines as
they were sent, a few at a time; staged amounts from the payloads; created amounts from the tables.
"""

from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.totals import FileTotals, list_measures
from migration_service.models import Batch
from migration_service.services.batches.intake.control_totals import report_control_totals, sort_measures
from migration_service.services.reconciliation.added_data import is_of_added_data
from migration_service.services.reconciliation.book_totals_sql import COUNT_BOOK, LIST_FILES, LIST_REPEATED
from migration_service.services.reconciliation.submitted_items import Submitted
from migration_service.services.reconciliation.submitted_sql import LIST_REFUSED_LINES

#: The number of lines whose text is read together.
_PIECE = 50
#: The largest number of files listed for a supplier.
MOST_FILES = 50
_NOTHING = Decimal(0)
_LONGEST_QUERY = text("SET LOCAL statement_timeout = '10min'")


@dataclass(slots=True)
class BookTotal:
    """One measure of a book, by outcome. Amounts are in euros."""

    measure: str
    #: The supplier's value, and the sum over all lines of the file. None if the supplier gave no value, or if
    #: the totals are not those of one file.
    given: Decimal | None = None
    file: Decimal | None = None
    #: `file` minus `given`.
    difference: Decimal | None = None
    #: The part in refused accounts and lines, and how much of that is acknowledged.
    refused: Decimal = _NOTHING
    acknowledged: Decimal = _NOTHING
    #: The part in lines that repeat the account of an earlier line of the same file.
    repeated: Decimal = _NOTHING
    staged: Decimal = _NOTHING
    skipped: Decimal = _NOTHING
    created: Decimal = _NOTHING
    #: `file` minus the refused, repeated, staged, skipped and created parts. None without a file, while lines
    #: are waiting, and once they were removed. Not zero if a later batch sent other values for the accounts.
    unaccounted: Decimal | None = None


@dataclass(frozen=True, slots=True)
class SentBook:
    """A file of accounts, and whether it matches the supplier's control totals."""

    batch_id: UUID
    file_name: str | None
    file_sha256: str | None
    file_bytes: int | None
    #: The number of control totals that differ, or None if none were given.
    control_totals_differing: int | None
    #: Whether no total differs and the whole file could be read, or None if none were given.
    control_totals_as_given: bool | None


@dataclass(slots=True)
class BookTotals:
    """The totals of a book. The names are those of the interface."""

    totals: list[BookTotal] = field(default_factory=list)
    #: Whether the supplier gave control totals. None if the totals are not those of one file of accounts.
    given: bool | None = None
    #: The number of control totals that differ from the file.
    differing: int | None = None
    #: Whether no total differs and the whole file could be read, or None if there is nothing to compare.
    as_given: bool | None = None
    #: The numbers of unreadable lines, and of unreadable amounts, among refused and repeated lines.
    unreadable_lines: int = 0
    unreadable_amounts: int = 0
    #: The newest files of the supplier, newest first, or the file of the batch.
    files: list[SentBook] = field(default_factory=list)

    @property
    def is_as_given(self) -> bool | None:
        """Return whether the newest file with control totals matches them, or None if no file has any."""
        compared = [it.control_totals_as_given for it in self.files]
        return next((it for it in compared if it is not None), None)


def count_book(
    sessions: sessionmaker[Session], import_supplier_id: int, sent: Submitted, *, batch_id: UUID | None = None
) -> BookTotals | None:
    """Return the totals of everything that the supplier sent, or only of the lines of a batch.

    Return None for a batch of added data.
    """
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id}
    with sessions.begin() as session:
        if batch_id is not None and is_of_added_data(session, batch_id):
            return None
        session.execute(_LONGEST_QUERY)
        parts = {name: dict[str, Decimal]() for name in ("staged", "skipped", "created")}
        for outcome, measure, value in session.execute(COUNT_BOOK, values):
            parts[outcome][measure] = value
        book = BookTotals(files=_list_files(session, values))
        refused = _add_up_refused(session, book, values)
        batch = session.get_one(Batch, batch_id) if batch_id else None
        in_file = _read_file(book, batch) if batch else {}
        whole = batch is not None and not batch.lines_removed_at and not sent.waiting
    book.totals = _join(parts | refused | in_file, whole=whole)
    return book


def _list_files(session: Session, values: dict[str, Any]) -> list[SentBook]:
    batches = [
        session.get_one(Batch, id_) for id_ in session.scalars(LIST_FILES, {**values, "limit": MOST_FILES})
    ]
    return [
        SentBook(
            batch.id,
            batch.file_name,
            batch.file_sha256.hex() if batch.file_sha256 else None,
            batch.file_bytes,
            report.differing,
            report.as_given,
        )
        for batch in batches
        for report in (report_control_totals(batch),)
    ]


def _add_up_refused(
    session: Session, book: BookTotals, values: dict[str, Any]
) -> dict[str, dict[str, Decimal]]:
    lines = {name: FileTotals() for name in ("open", "acknowledged", "repeated")}
    pieces = {"yield_per": _PIECE}
    for row in session.execute(LIST_REFUSED_LINES, values, execution_options=pieces):
        lines["acknowledged" if row.acknowledged else "open"].add_line(row.payload)
    if values["batch_id"] is not None:
        for row in session.execute(LIST_REPEATED, values, execution_options=pieces):
            lines["repeated"].add_line(row.payload)
    refused = FileTotals()
    refused.add(lines["open"])
    refused.add(lines["acknowledged"])
    book.unreadable_lines = refused.unreadable_lines + lines["repeated"].unreadable_lines
    book.unreadable_amounts = refused.unreadable_amounts + lines["repeated"].unreadable_amounts
    found = {"refused": refused, "acknowledged": lines["acknowledged"], "repeated": lines["repeated"]}
    return {name: list_measures(totals.to_dict()) for name, totals in found.items()}


def _read_file(book: BookTotals, batch: Batch) -> dict[str, dict[str, Decimal]]:
    """Return the totals of the batch's file and the given ones, and record whether any were given."""
    report = report_control_totals(batch)
    if not report.totals:
        return {}
    book.given, book.differing = report.control_totals is not None, report.differing
    book.as_given = report.as_given
    return {
        "file": {total.measure: total.file for total in report.totals},
        "given": {total.measure: total.given for total in report.totals if total.given is not None},
    }


def _join(parts: dict[str, dict[str, Decimal]], *, whole: bool) -> list[BookTotal]:
    """Return a row for each measure. `whole` tells whether the outcome of every line of the file is known."""
    totals = []
    for measure in sort_measures({measure for found in parts.values() for measure in found}):
        total = BookTotal(measure)
        for name, found in parts.items():
            setattr(total, name, found.get(measure, None if name == "given" else _NOTHING))
        if total.file is not None:
            if total.given is not None:
                total.difference = total.file - total.given
            if whole:
                there = (total.refused, total.repeated, total.staged, total.skipped, total.created)
                total.unaccounted = total.file - sum(there, _NOTHING)
        totals.append(total)
    return totals


def is_all_zero(book: BookTotals, name: str) -> bool:
    """Return whether a column contains only zeros, so that it need not be shown to people."""
    return not any(asdict(total)[name] for total in book.totals)
