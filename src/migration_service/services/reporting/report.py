"""The figures of a report that can be shared: plans, results, failures and decisions.

A report is about a supplier, one batch, a plan of waves, or one wave. It contains no personal data: examples
of failures are identified by line and path, without their values. `report_page` renders it.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.rules.catalogue import RULES_VERSION
from migration_service.db.cancelling import allow_minutes
from migration_service.models import Acknowledgement, Batch, ImportSupplier, WavePlan
from migration_service.services.batches.control import BatchReport, report_batch
from migration_service.services.batches.results.counts import count_error_codes, count_lines, count_open
from migration_service.services.batches.results.listing import list_batches
from migration_service.services.reconciliation import acknowledgements, comparisons
from migration_service.services.reconciliation.differences import AccountDifference
from migration_service.services.reconciliation.submitted import REFUSED_BY_CODE
from migration_service.services.reconciliation.verdict import Verdict, combine, judge
from migration_service.services.reporting import report_sql as sql
from migration_service.services.reporting.report_subject import ReportKind, ReportSubject
from migration_service.services.setup.suppliers import list_owned
from migration_service.services.undo.go_live import count_owners
from migration_service.services.waves.reports import PlanReport, WaveReport, report_plan, report_plans
from migration_service.states import BatchKind, BatchSource, LineStatus

#: The largest numbers of codes, batches, differences, undos and decisions shown, and of examples of each
#: code.
MOST_CODES, MOST_BATCHES, MOST_DIFFERENCES, MOST_UNDOS, MOST_DECISIONS = 40, 50, 20, 20, 100
EXAMPLES = 3
#: The largest numbers of plans, acknowledgements and rehearsals of a supplier that are shown.
MOST_PLANS, MOST_ACKNOWLEDGED, MOST_REHEARSALS = 10, 100, 20
#: The number of intervals of the chart: one for this many lines or accounts, within these bounds.
LINES_OF_PART, FEWEST_PARTS, MOST_PARTS = 400, 8, 60


@dataclass(frozen=True, slots=True)
class FailedCode:
    """An error code, with the number of lines that have it and some examples."""

    code: str
    lines: int
    #: The batch, the line number, and the path of the value, which may be absent.
    examples: list[tuple[str, int, str | None]]


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions used to produce the figures."""

    service: str
    revision: str
    rules: str
    database: str


@dataclass(frozen=True, slots=True)
class Rates:
    """The numbers of lines or accounts done in consecutive intervals."""

    since: datetime
    until: datetime
    #: The length of an interval in seconds.
    width: float
    done: list[int]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A batch from a file of accounts, as one step towards a book without errors."""

    batch_id: UUID
    name: str | None
    mode: str
    created_at: datetime
    lines: int
    #: The numbers of lines with an outcome, and of failed lines.
    done: int
    failed: int
    #: The error codes with their numbers of lines, the most frequent ones first.
    codes: list[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures of a report."""

    subject: ReportSubject
    made_at: datetime
    live_at: datetime | None
    #: The number of accounts by their owner.
    owners: Counter[str]
    #: What was sent, is open and differs.
    verdict: Verdict
    #: The batches of the report, or the newest ones of the supplier, each with the person who started it.
    batches: list[tuple[BatchReport, str | None]]
    #: The plan, and all or one of its waves.
    plan: PlanReport | None = None
    waves: Sequence[WaveReport] = ()
    #: For a supplier: its newest plans, the newest acknowledgements of what stays out and their number, and
    #: its rehearsals.
    plans: Sequence[PlanReport] = ()
    acknowledged: Sequence[Acknowledgement] = ()
    all_acknowledged: int = 0
    trend: Sequence[Rehearsal] = ()
    failed: list[FailedCode]
    rates: Rates | None
    differences: list[AccountDifference] = field(default_factory=list)
    undos: Sequence[Any] = ()
    #: The acts of people and keys, from the audit.
    decisions: Sequence[Any] = ()
    versions: Versions


def make_report(
    sessions: sessionmaker[Session], subject: ReportSubject, *, seconds: float | None = None
) -> Report:
    """Return the figures of a report.

    This compares every account, which takes seconds for 100,000. If that takes more than `seconds`, workers
    finish it, and the report relies on the comparison that was kept before. With 0 seconds, it does so at
    once. Each part is read in a separate transaction, so the figures of a running batch may be some seconds
    apart.
    """
    until = None if seconds is None else time.monotonic() + seconds
    for batch_id in (subject.batch_ids or (None,)) if seconds != 0 else ():
        with sessions.begin() as session:
            comparison_id = comparisons.start_comparison(session, subject.supplier, batch_id)[0].id
        left = None if until is None else max(until - time.monotonic(), 0)
        comparisons.wait_for_comparison(sessions, comparison_id, seconds=left)
    with sessions.begin() as session:
        allow_minutes(session)
        plan = report_plan(session, session.get_one(WavePlan, subject.plan_id)) if subject.plan_id else None
        waves = plan.waves if plan else []
        decided = {"code": subject.supplier.code, "limit": MOST_DECISIONS}
        return Report(
            subject=subject,
            made_at=datetime.now(UTC),
            live_at=session.get_one(ImportSupplier, subject.supplier.id).live_at,
            owners=_count_owners(session, subject),
            verdict=combine([judge(session, subject.supplier.id, it) for it in subject.batch_ids or (None,)]),
            batches=_read_batches(session, subject),
            plan=plan,
            waves=[wave for wave in waves if subject.wave in (None, wave.number)],
            **(_read_whole(session, subject) if subject.kind is ReportKind.SUPPLIER else {}),
            failed=_read_failed(session, subject),
            rates=_read_rates(session, subject),
            differences=_list_differences(session, subject),
            undos=session.execute(sql.UNDOS, subject.values() | {"limit": MOST_UNDOS}).all(),
            decisions=session.execute(sql.DECISIONS, subject.values() | decided).all(),
            versions=_read_versions(session),
        )


def _count_owners(session: Session, subject: ReportSubject) -> Counter[str]:
    found = (count_owners(session, subject.supplier.id, it) for it in subject.batch_ids or (None,))
    return sum(found, Counter())


def _list_differences(session: Session, subject: ReportSubject) -> list[AccountDifference]:
    kept = (comparisons.find_kept(session, subject.supplier.id, it) for it in subject.batch_ids or (None,))
    found = (comparisons.list_differing(session, it, limit=MOST_DIFFERENCES) for it in kept if it is not None)
    return [account for accounts in found for account in accounts][:MOST_DIFFERENCES]


def _read_whole(session: Session, subject: ReportSubject) -> dict[str, Any]:
    """Return the parts that only the report of a supplier has."""
    supplier = subject.supplier
    plans = list_owned(
        session, WavePlan, organisation_id=None, import_supplier=supplier.code, limit=MOST_PLANS
    )
    return {
        "plans": report_plans(session, plans),
        "acknowledged": acknowledgements.list_acknowledgements(
            session, supplier.id, limit=MOST_ACKNOWLEDGED
        ).all(),
        "all_acknowledged": acknowledgements.count_acknowledgements(session, supplier.id),
        "trend": read_trend(session, supplier.id),
    }


def _read_batches(session: Session, subject: ReportSubject) -> list[tuple[BatchReport, str | None]]:
    if subject.batch_ids is not None:
        reports = [report_batch(session, session.get_one(Batch, id_)) for id_ in subject.batch_ids]
    else:
        reports = list_batches(
            session, organisation_id=None, import_supplier=subject.supplier.code, limit=MOST_BATCHES
        )
    ids = {"batch_ids": [report.batch_id for report in reports]}
    starters = {row.id: row.name for row in session.execute(sql.STARTERS, ids)}
    return [(report, starters[report.batch_id]) for report in reports]


def _read_failed(session: Session, subject: ReportSubject) -> list[FailedCode]:
    statement = REFUSED_BY_CODE if subject.batch_ids is None else sql.FAILED_BY_CODE
    values = subject.values() | {"batch_id": None, "examples": EXAMPLES, "limit": MOST_CODES}
    return [
        FailedCode(code, lines, [(batch, line, _public(code, path)) for batch, line, path in examples])
        for code, lines, examples in session.execute(statement, values)
    ]


def _read_rates(session: Session, subject: ReportSubject) -> Rates | None:
    """Return the lines of batches over time, or the created accounts of the supplier if it is about all.

    Return None if nothing was done yet.
    """
    whole, statement = sql.TIME_OF_LINES, sql.LINES_OVER_TIME
    if subject.batch_ids is None:
        whole, statement = sql.TIME_OF_ACCOUNTS, sql.ACCOUNTS_OVER_TIME
    since, until, total = session.execute(whole, subject.values()).one()
    if since is None:
        return None
    parts = min(max(total // LINES_OF_PART, FEWEST_PARTS), MOST_PARTS)
    width = max((until - since).total_seconds(), 1.0) / parts
    done = [0] * parts
    for part, number in session.execute(statement, subject.values() | {"since": since, "width": width}):
        done[min(part, parts - 1)] += number
    return Rates(since, until, width, done)


def _public(code: str, path: str | None) -> str | None:
    """Return a path without names of unknown fields, which are chosen by clients."""
    if path is None or code != "unknown_field":
        return path
    return path.rpartition(".")[0] or None


def _read_versions(session: Session) -> Versions:
    revision = session.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    database = session.execute(text("SHOW server_version")).scalar_one()
    return Versions(version("migration-service"), revision, str(RULES_VERSION), f"PostgreSQL {database}")


def read_trend(session: Session, import_supplier_id: int, *, limit: int = MOST_REHEARSALS) -> list[Rehearsal]:
    """Return the newest batches from files of accounts, in chronological order."""
    newest = (
        select(Batch)
        .where(
            Batch.import_supplier_id == import_supplier_id,
            Batch.kind == BatchKind.ACCOUNTS,
            Batch.source == BatchSource.UPLOAD,
        )
        .order_by(Batch.id.desc())
        .limit(limit)
    )
    batches = session.scalars(newest).all()[::-1]
    ids = [batch.id for batch in batches]
    counts, codes = count_lines(session, ids), count_error_codes(session, ids)
    return [
        Rehearsal(
            *(batch.id, batch.name or batch.file_name, batch.mode, batch.created_at, batch.lines),
            done=sum(counts[batch.id].values()) - count_open(counts[batch.id]),
            failed=counts[batch.id].get(LineStatus.FAILED, 0),
            codes=sorted(codes[batch.id].items(), key=lambda it: (-it[1], it[0])),
        )
        for batch in batches
    ]
