"""The verdict about a supplier, a batch or a wave: what is open or differs, and whether that is clean.

It is worked out from the present counts and the kept comparison, and every surface asks here: the command and
its exit status, REST, the console, reports, waves with their events, and the preview of going live. REST is
answered with the verdict and everything that is open or differs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from sqlalchemy import Uuid, bindparam, text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.moments import write_moment
from migration_payloads.schemas.json import encode_json, finite
from migration_service.db.cancelling import allow_minutes
from migration_service.models import Batch, Comparison
from migration_service.services.reconciliation import comparisons, submitted
from migration_service.services.reconciliation.book_totals import BookTotals, read_book
from migration_service.services.reconciliation.differences import NOT_COMPARED, Totals
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import ImportState, Problem, UndoOutcome

#: The number of entries that are written together.
WRITTEN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known of a book now, and the comparison that it relies on."""

    sent: submitted.Submitted
    #: When the comparison began and ended. None if nothing has been compared yet.
    compared_from: datetime | None = None
    compared_at: datetime | None = None
    totals: Totals = field(default_factory=Totals)
    #: None for added data, and before the first comparison.
    book: BookTotals | None = None
    #: Accounts that were created, and undone, since the comparison began.
    created_since: int = 0
    undone_since: int = 0
    #: Of all created accounts, those that no comparison has read.
    not_compared: int = 0
    #: Differing accounts of the comparison, and of later ones of single batches.
    differing: int = 0

    @property
    def problems(self) -> dict[Problem, int]:
        """Return why the book is not clean, with the number of accounts, lines, measures or files."""
        sent, totals, book = self.sent, self.totals, self.book
        found = {
            Problem.OPEN: sent.open,
            Problem.REMOVED: sent.removed_refused + sent.removed_waiting,
            Problem.DIFFERING: self.differing,
            Problem.NOT_COMPARED: self.not_compared,
            Problem.NOT_COMPARABLE: totals.not_comparable - totals.erased,
            Problem.UNACCOUNTED: book.unaccounted if book else 0,
            Problem.CONTROL_TOTALS: book.contradicted if book else 0,
            Problem.OLD_FIGURES: totals.figures.differing,
        }
        return {problem: number for problem, number in found.items() if number}

    @property
    def is_created_clean(self) -> bool:
        """Return whether something was compared, everything was, and nothing differs."""
        unclean = {Problem.DIFFERING, Problem.NOT_COMPARED, Problem.NOT_COMPARABLE}
        return self.totals.created_clean and not unclean & self.problems.keys()

    @property
    def is_clean(self) -> bool:
        """Return whether there is no problem."""
        return not self.problems


def judge(
    session: Session,
    import_supplier_id: int,
    batch_id: UUID | None = None,
    *,
    comparison: Comparison | None = None,
) -> Verdict:
    """Return the verdict about everything that a supplier sent, or about one batch.

    It relies on the kept comparison, unless one is given.
    """
    sent = submitted.count_submitted(session, import_supplier_id, batch_id=batch_id)
    comparison = comparison or comparisons.find_kept(session, import_supplier_id, batch_id)
    allow_minutes(session)
    values = {
        "import_supplier_id": import_supplier_id,
        "batch_id": batch_id,
        "since": comparison.started_at if comparison else None,
        "comparison_id": comparison.id if comparison else None,
    }
    adds_data = submitted.is_of_added_data(session, batch_id)
    count_not_compared, count_created = _OF_BATCH if batch_id else _OF_SUPPLIER
    not_compared = 0 if adds_data else session.scalar(count_not_compared, values) or 0
    if comparison is None:
        later = session.scalar(_COUNT_LATER_DIFFERING, values) or 0
        return Verdict(sent=sent, not_compared=not_compared, differing=later)
    totals = comparisons.read_totals(comparison)
    batch = session.get_one(Batch, batch_id) if batch_id else None
    return Verdict(
        sent=sent,
        compared_from=comparison.started_at,
        compared_at=comparison.finished_at,
        totals=totals,
        book=None if adds_data else read_book(session, import_supplier_id, totals, batch),
        created_since=session.scalar(count_created, values) or 0,
        undone_since=session.scalar(_COUNT_UNDONE_SINCE, values) or 0,
        not_compared=not_compared,
        differing=totals.differing + (session.scalar(_COUNT_LATER_DIFFERING, values) or 0),
    )


_BATCH_ID = bindparam("batch_id", type_=Uuid)
_CREATED = f"""
    FROM {{}} AS process
    WHERE process.import_supplier_id = :import_supplier_id AND process.state = '{ImportState.IMPORTED}'
      AND (CAST(:since AS timestamptz) IS NULL OR process.account_created_at > :since)
"""
# Created since the comparison began, and read by no comparison of another scope since.
_NOT_COMPARED = f"""
    SELECT count(*) {_CREATED}
      AND NOT EXISTS (
          SELECT FROM comparison LEFT JOIN batch_line AS line
            ON line.batch_id = comparison.batch_id
           AND line.external_account_number = process.external_account_number
          WHERE comparison.import_supplier_id = :import_supplier_id AND comparison.finished_at IS NOT NULL
            AND comparison.started_at >= process.account_created_at
            AND (comparison.batch_id IS NULL OR line.batch_id IS NOT NULL))
"""
# The statements that count the accounts that no comparison has read, and those created since.
_OF_SUPPLIER, _OF_BATCH = (
    [text(it.format(accounts)) for it in (_NOT_COMPARED, f"SELECT count(*) {_CREATED}")]
    for accounts in ("account_import_process", submitted.ACCOUNTS_OF_BATCH)
)

_COUNT_UNDONE_SINCE = text(f"""
    SELECT count(*) FROM undo JOIN undo_line AS line ON line.undo_id = undo.id
    JOIN account_import_process AS process ON process.id = line.account_import_process_id
    WHERE undo.import_supplier_id = :import_supplier_id AND line.outcome = '{UndoOutcome.REVERTED}'
      AND line.finished_at > :since
      AND (:batch_id IS NULL OR EXISTS (
          SELECT FROM batch_line AS own WHERE own.batch_id = :batch_id
            AND own.external_account_number = process.external_account_number))
""").bindparams(_BATCH_ID)

# Of a supplier, the other differing accounts of its batches that were compared later.
_COUNT_LATER_DIFFERING = text("""
    SELECT count(DISTINCT external_account_number)
    FROM comparison JOIN compared_account AS account ON account.comparison_id = comparison.id
    WHERE import_supplier_id = :import_supplier_id AND batch_id IS NOT NULL AND :batch_id IS NULL
      AND finished_at IS NOT NULL AND (CAST(:since AS timestamptz) IS NULL OR started_at > :since)
      AND NOT EXISTS (
          SELECT FROM compared_account AS known WHERE known.comparison_id = :comparison_id
            AND known.external_account_number = account.external_account_number)
""").bindparams(_BATCH_ID, bindparam("comparison_id", type_=Uuid))


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict about several batches together, of which no account is in two. It has no book."""
    if len(verdicts) == 1:
        return verdicts[0]
    totals = Totals()
    for verdict in verdicts:
        totals.include(verdict.totals)
    moments = [(it.compared_from, it.compared_at) for it in verdicts if it.compared_from and it.compared_at]
    counts = [asdict(it.sent) for it in verdicts]
    return Verdict(
        sent=submitted.Submitted(**{name: sum(sent[name] for sent in counts) for name in counts[0]}),
        compared_from=min(moments)[0] if moments else None,
        compared_at=min(at for _, at in moments) if moments else None,
        totals=totals,
        created_since=sum(it.created_since for it in verdicts),
        undone_since=sum(it.undone_since for it in verdicts),
        not_compared=sum(it.not_compared for it in verdicts),
        differing=sum(it.differing for it in verdicts),
    )


def list_problems(problems: Mapping[Problem, int]) -> list[dict[str, Any]]:
    """Return problems with their numbers, as values for JSON."""
    return [{"problem": problem.value, "number": number} for problem, number in problems.items()]


def describe_problems(problems: Mapping[Problem, int]) -> list[str]:
    """Return a sentence in English for each problem."""
    return [SENTENCES[problem][number != 1] % {"num": f"{number:,}"} for problem, number in problems.items()]


#: What people are told of each problem, if the number is one, and otherwise. The console translates them.
SENTENCES: dict[Problem, tuple[str, str]] = {
    Problem.OPEN: ("%(num)s item is open.", "%(num)s items are open."),
    Problem.REMOVED: (
        "%(num)s line was open when it was removed at the end of its retention period.",
        "%(num)s lines were open when they were removed at the end of their retention period.",
    ),
    Problem.DIFFERING: ("%(num)s created account differs.", "%(num)s created accounts differ."),
    Problem.NOT_COMPARED: (
        "%(num)s created account has not been compared yet.",
        "%(num)s created accounts have not been compared yet.",
    ),
    Problem.NOT_COMPARABLE: (
        "%(num)s account cannot be compared: its staged payload was removed.",
        "%(num)s accounts cannot be compared: their staged payloads were removed.",
    ),
    Problem.UNACCOUNTED: (
        "%(num)s total of the file is not accounted for.",
        "%(num)s totals of the file are not accounted for.",
    ),
    Problem.CONTROL_TOTALS: (
        "%(num)s file does not match its control totals.",
        "%(num)s files do not match their control totals.",
    ),
    Problem.OLD_FIGURES: (
        "%(num)s account differs from the figures of the old system.",
        "%(num)s accounts differ from the figures of the old system.",
    ),
}


def describe_progress(session: Session, comparison_id: UUID) -> dict[str, Any] | None:
    """Return how far a comparison is, as values for JSON, or None if it has ended."""
    comparison = session.get(Comparison, comparison_id)
    if comparison is None or comparison.finished_at is not None:
        return None
    return {
        "comparison": {
            "id": comparison.id,
            "started_at": write_moment(comparison.started_at),
            "items": comparison.items,
            "done": comparison.done,
            "time_left": comparisons.estimate_time_left(session, comparison),
        }
    }


def stream_reconciliation(
    sessions: sessionmaker[Session], supplier: KnownSupplier, verdict: Verdict, *, batch_id: UUID | None
) -> Iterator[bytes]:
    """Yield the whole reconciliation as one JSON object, in pieces."""
    code = encode_json(supplier.code)
    yield b'{"import_supplier":%b,"sent":%b,"open":[' % (code, encode_json(verdict.sent))
    yield from _join(submitted.find_open(sessions, supplier.id, batch_id=batch_id))
    yield b'],"book":%b,"differences":[' % encode_json(finite(verdict.book))
    with sessions.begin() as session:
        comparison = comparisons.find_kept(session, supplier.id, batch_id)
    if comparison is not None:
        yield from _join(comparisons.stream_differing(sessions, comparison))
    yield b"]," + encode_json(finite(describe_verdict(verdict)))[1:]


def describe_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return everything but the individual accounts and lines, as values for JSON."""
    totals = verdict.totals
    return {
        "totals": totals.list_measures(),
        "compared": totals.compared,
        "not_comparable": totals.not_comparable,
        "not_comparable_lines": totals.not_comparable_lines,
        "lines_not_comparable": [
            {"batch_id": batch, "line_number": line} for batch, line in totals.named_lines
        ],
        "not_compared": NOT_COMPARED,
        "differing": verdict.differing,
        "old_figures": totals.figures.list_counts(),
        "compared_from": verdict.compared_from and write_moment(verdict.compared_from),
        "compared_at": verdict.compared_at and write_moment(verdict.compared_at),
        "created_since": verdict.created_since,
        "undone_since": verdict.undone_since,
        "problems": list_problems(verdict.problems),
        "created_clean": verdict.is_created_clean,
        "complete": verdict.sent.is_complete,
        "clean": verdict.is_clean,
    }


def _join(items: Iterator[Any]) -> Iterator[bytes]:
    comma = b""
    while piece := list(islice(items, WRITTEN)):
        yield comma + b",".join(encode_json(finite(item)) for item in piece)
        comma = b","
