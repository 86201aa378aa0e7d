"""Where the money of a book is: given by the supplier, in the file, refused, staged, created.

Each measure of `services.batches.intake.file_totals` has one row. What was refused is read from the lines as
they were sent, a few at a time. What is staged is read from the payloads, what is created from the tables.
"""

from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch
from migration_service.services.batches.intake.control_totals import report_control_totals, sort_measures
from migration_service.services.batches.intake.file_totals import FileTotals, list_measures
from migration_service.services.reconciliation.added_data import find_kind
from migration_service.services.reconciliation.book_totals_sql import COUNT_BOOK, LIST_FILES, LIST_REPEATED
from migration_service.services.reconciliation.submitted_items import Sent
from migration_service.services.reconciliation.submitted_sql import LIST_REFUSED_LINES

#: Lines whose text is in memory at one time.
_PIECE = 50
#: Files of a supplier that are listed.
MOST_FILES = 50
_NOTHING = Decimal(0)
_LONGEST_QUERY = text("SET LOCAL statement_timeout = '10min'")


@dataclass(slots=True)
class BookTotal:
    """One measure of a book, by what became of it. Amounts are in euros."""

    measure: str
    #: What the supplier said, and what all lines of the file add up to. None: it did not say, or it is not
    #: about one file.
    given: Decimal | None = None
    file: Decimal | None = None
    #: `file` less `given`.
    difference: Decimal | None = None
    #: Of accounts and lines that are refused; and how much of that is acknowledged.
    refused: Decimal = _NOTHING
    acknowledged: Decimal = _NOTHING
    #: Of lines that repeat the account of an earlier line of the same file.
    repeated: Decimal = _NOTHING
    staged: Decimal = _NOTHING
    skipped: Decimal = _NOTHING
    created: Decimal = _NOTHING
    #: `file` less what is refused, repeated, staged, skipped and created. None without a file, while lines
    #: wait, and once they were removed. It is not zero if a later batch sent other values for the accounts.
    unaccounted: Decimal | None = None


@dataclass(frozen=True, slots=True)
class SentBook:
    """A file of accounts that was sent, and whether it is as the supplier said."""

    batch_id: UUID
    file_name: str | None
    file_sha256: str | None
    file_bytes: int | None
    #: How many control totals differ; None: none were given.
    control_totals_differing: int | None
    #: Whether none differs and the whole file could be read; None if none were given.
    control_totals_as_given: bool | None


@dataclass(slots=True)
class BookTotals:
    """The totals of a book. The names are those of the interface."""

    totals: list[BookTotal] = field(default_factory=list)
    #: Whether the supplier gave control totals. None if it is not about one file of accounts.
    given: bool | None = None
    #: How many of them differ from the file.
    differing: int | None = None
    #: Whether none differs and the whole file could be read; None if there is nothing to compare.
    as_given: bool | None = None
    #: Of the lines that were refused or repeated: those that could not be read, and their amounts.
    unreadable_lines: int = 0
    unreadable_amounts: int = 0
    #: The newest files of the supplier, or that of the batch, the newest first.
    files: list[SentBook] = field(default_factory=list)

    @property
    def is_as_given(self) -> bool | None:
        """Return whether the newest file that has control totals is as they say; None if no file has any."""
        compared = [it.control_totals_as_given for it in self.files]
        return next((it for it in compared if it is not None), None)


def count_book(
    sessions: sessionmaker[Session], import_supplier_id: int, sent: Sent, *, batch_id: UUID | None = None
) -> BookTotals | None:
    """Return the totals of what the supplier sent. With `batch_id`, only what is on the lines of that batch.

    Return None for a batch of added data.
    """
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id}
    with sessions.begin() as session:
        if find_kind(session, batch_id).is_added_data:
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
    """Return what is in the file of the batch and what was given, and note whether it was."""
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
    """Return a row for each measure. `whole`: it is known what became of each line of the file."""
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
    """Return whether a column has nothing but zeros, so that people need not see it."""
    return not any(asdict(total)[name] for total in book.totals)
