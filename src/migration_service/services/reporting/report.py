"""The figures of a report that a person can send on: what was planned, done and failed, and who decided what.

A report is about a supplier or about one batch. It has no personal values: examples of failures are named by
their line and their path, never by what is there. `report_page` makes a page of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib.metadata import version
from itertools import islice
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import BatchNotFoundError, ImportSupplierNotFoundError
from migration_service.models import Batch, ImportSupplier
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.services.batches.steering import BatchReport, get_batch, list_batches, report_batch
from migration_service.services.reporting import report_sql as sql
from migration_service.services.reporting.differences import AccountDifference, Totals
from migration_service.services.reporting.reconciliation import find_differences
from migration_service.services.reporting.sent import count_sent
from migration_service.services.reporting.sent_items import Sent
from migration_service.services.reporting.sent_sql import REFUSED_BY_CODE
from migration_service.services.setup.suppliers import (
    KnownSupplier,
    get_import_supplier,
    get_import_supplier_by_id,
)

#: Codes, batches, differences, undos and decisions that are shown, and examples of each code.
MOST_CODES, MOST_BATCHES, MOST_DIFFERENCES, MOST_UNDOS, MOST_DECISIONS = 40, 50, 20, 20, 100
EXAMPLES = 3
#: Parts of the time of the chart: one for so many lines or accounts, within these bounds.
LINES_OF_PART, FEWEST_PARTS, MOST_PARTS = 400, 8, 60


class ReportKind(StrEnum):
    """What a report is about."""

    SUPPLIER = "supplier"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """A supplier, or one batch of it."""

    kind: ReportKind
    supplier: KnownSupplier
    batch_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class FailedCode:
    """A code of errors: how many lines have it, and where some of them are."""

    code: str
    lines: int
    #: The batch, the number of the line and the path of the value, which may be absent.
    examples: list[tuple[str, int, str | None]]


@dataclass(frozen=True, slots=True)
class Rates:
    """How many lines or accounts were done in each part of a time."""

    since: datetime
    until: datetime
    #: Seconds of a part.
    width: float
    done: list[int]

    @property
    def highest(self) -> float:
        """Return the highest rate of a part, in lines or accounts per second."""
        return max(self.done, default=0) / self.width


@dataclass(frozen=True, slots=True)
class Decision:
    """An act of a person or a key, as the audit has it."""

    at: datetime
    actor: str
    action: str
    subject_kind: str
    subject: str
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Versions:
    """What the figures were made with."""

    service: str
    revision: str
    rules: str
    database: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that a page shows."""

    subject: ReportSubject
    made_at: datetime
    live_at: datetime | None
    #: What was sent, by what became of it.
    sent: Sent
    #: The batch, or the newest batches of the supplier, each with who started it.
    batches: list[tuple[BatchReport, str | None]]
    failed: list[FailedCode]
    rates: Rates | None
    totals: Totals
    differences: list[AccountDifference] = field(default_factory=list)
    undos: Sequence[Any] = ()
    decisions: list[Decision] = field(default_factory=list)
    versions: Versions


def find_subject(session: Session, target: str, *, organisation_id: int | None) -> ReportSubject:
    """Return the supplier with this code, or the batch with this id.

    `organisation_id` is the caller's organisation. None finds those of every organisation, for operators.
    Raise ImportSupplierNotFoundError if there is neither.
    """
    try:
        supplier = get_import_supplier(session, target, organisation_id=organisation_id)
        return ReportSubject(ReportKind.SUPPLIER, supplier)
    except ImportSupplierNotFoundError as error:
        try:
            batch = get_batch(session, target, organisation_id=organisation_id)
        except BatchNotFoundError:
            raise error from None
    supplier = get_import_supplier_by_id(session, batch.import_supplier_id)
    return ReportSubject(ReportKind.BATCH, supplier, batch.id)


def make_report(sessions: sessionmaker[Session], subject: ReportSubject) -> Report:
    """Return the figures of a report. It compares every account, which takes seconds for 100,000 of them.

    Each part is a transaction of its own, so the figures of a batch that runs may be some seconds apart.
    """
    totals = Totals()
    differing = find_differences(sessions, subject.supplier.id, totals, batch_id=subject.batch_id)
    differences = list(islice(differing, MOST_DIFFERENCES))
    for _ in differing:  # so that the totals are complete
        pass
    with sessions.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = '10min'"))
        sent = count_sent(session, subject.supplier.id, batch_id=subject.batch_id)
        live_at = session.get_one(ImportSupplier, subject.supplier.id, populate_existing=True).live_at
        return Report(
            subject=subject,
            made_at=datetime.now(UTC),
            live_at=live_at,
            sent=sent,
            batches=_read_batches(session, subject),
            failed=_read_failed(session, subject),
            rates=_read_rates(session, subject, sent.created),
            totals=totals,
            differences=differences,
            undos=session.execute(sql.UNDOS, _values(subject) | {"limit": MOST_UNDOS}).all(),
            decisions=_read_decisions(session, subject),
            versions=_read_versions(session),
        )


def _values(subject: ReportSubject) -> dict[str, Any]:
    return {"import_supplier_id": subject.supplier.id, "batch_id": subject.batch_id}


def _read_batches(session: Session, subject: ReportSubject) -> list[tuple[BatchReport, str | None]]:
    if subject.batch_id is not None:
        reports = [report_batch(session, session.get_one(Batch, subject.batch_id))]
    else:
        reports = list_batches(
            session, organisation_id=None, import_supplier=subject.supplier.code, limit=MOST_BATCHES
        )
    ids = {"batch_ids": [report.batch_id for report in reports]}
    starters = {row.id: row.name for row in session.execute(sql.STARTERS, ids)}
    return [(report, starters[report.batch_id]) for report in reports]


def _read_failed(session: Session, subject: ReportSubject) -> list[FailedCode]:
    statement = REFUSED_BY_CODE if subject.batch_id is None else sql.FAILED_BY_CODE
    values = _values(subject) | {"examples": EXAMPLES, "limit": MOST_CODES}
    return [
        FailedCode(code, lines, [(batch, line, _public(code, path)) for batch, line, path in examples])
        for code, lines, examples in session.execute(statement, values)
    ]


def _public(code: str, path: str | None) -> str | None:
    """Return a path without what a client chose itself: the name of an unknown field."""
    if path is None or code != "unknown_field":
        return path
    return path.rpartition(".")[0] or None


def _read_rates(session: Session, subject: ReportSubject, created: int) -> Rates | None:
    total = created
    if subject.batch_id is None:
        since, until = session.execute(sql.TIME_OF_ACCOUNTS, _values(subject)).one()
        statement = sql.ACCOUNTS_OVER_TIME
    else:
        batch = session.get_one(Batch, subject.batch_id)
        since, until = batch.started_at, batch.finished_at or session.scalar(select(func.now()))
        statement, total = sql.LINES_OVER_TIME, batch.lines
    if since is None or until is None:
        return None
    parts = min(max(total // LINES_OF_PART, FEWEST_PARTS), MOST_PARTS)
    width = max((until - since) / timedelta(seconds=1), 1.0) / parts
    rows = session.execute(statement, _values(subject) | {"since": since, "width": width})
    done = [0] * parts
    for part, number in rows:
        done[min(part, parts - 1)] += number
    return Rates(since, until, width, done)


def _read_decisions(session: Session, subject: ReportSubject) -> list[Decision]:
    values = _values(subject) | {"code": subject.supplier.code, "limit": MOST_DECISIONS}
    return [
        Decision(row.at, row.actor, row.action, row.subject_kind, row.subject, row.details or {})
        for row in session.execute(sql.DECISIONS, values)
    ]


def _read_versions(session: Session) -> Versions:
    revision = session.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    database = session.execute(text("SHOW server_version")).scalar_one()
    return Versions(version("migration-service"), revision, str(RULES_VERSION), f"PostgreSQL {database}")
