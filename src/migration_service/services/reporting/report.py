"""The figures of a report that a person can send on: what was planned, done and failed, and who decided what.

A report is about a supplier, one batch, a plan of waves, or one wave. It has no personal values: examples of
failures are named by their line and their path, never by what is there. `report_page` makes a page of it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from itertools import chain, islice
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import (
    BatchNotFoundError,
    ImportSupplierNotFoundError,
    WaveNotFoundError,
    WavePlanNotFoundError,
)
from migration_service.models import Batch, ImportSupplier, WavePlan
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.services.batches.listing import list_batches
from migration_service.services.batches.steering import BatchReport, get_batch, report_batch
from migration_service.services.reporting import report_sql as sql
from migration_service.services.reporting.differences import AccountDifference, Totals
from migration_service.services.reporting.reconciliation import find_differences
from migration_service.services.reporting.report_rates import Rates, read_rates
from migration_service.services.reporting.sent import count_sent
from migration_service.services.reporting.sent_items import Sent
from migration_service.services.reporting.sent_sql import REFUSED_BY_CODE
from migration_service.services.setup.suppliers import (
    KnownSupplier,
    get_import_supplier,
    get_import_supplier_by_id,
)
from migration_service.services.waves.progress import find_wave, list_waves
from migration_service.services.waves.reports import PlanReport, WaveReport, report_plan
from migration_service.services.waves.steering import get_plan

#: Codes, batches, differences, undos and decisions that are shown, and examples of each code.
MOST_CODES, MOST_BATCHES, MOST_DIFFERENCES, MOST_UNDOS, MOST_DECISIONS = 40, 50, 20, 20, 100
EXAMPLES = 3


class ReportKind(StrEnum):
    """What a report is about."""

    SUPPLIER = "supplier"
    BATCH = "batch"
    PLAN = "wave plan"
    WAVE = "wave"


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """A supplier, or some batches of it: one, those of the waves of a plan, or that of one wave."""

    kind: ReportKind
    supplier: KnownSupplier
    #: None: the whole supplier.
    batch_ids: tuple[UUID, ...] | None = None
    #: The plan of the waves, and the number of the wave. A batch has them, too, if it is that of a wave.
    plan_id: UUID | None = None
    wave: int | None = None

    @property
    def batch_id(self) -> UUID | None:
        """Return the batch if the report is about one, or about one wave."""
        is_one = self.kind in (ReportKind.BATCH, ReportKind.WAVE)
        return self.batch_ids[0] if self.batch_ids and is_one else None

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statements of a report."""
        return {
            "import_supplier_id": self.supplier.id,
            "batch_ids": None if self.batch_ids is None else list(self.batch_ids),
            "plan_id": self.plan_id,
        }


@dataclass(frozen=True, slots=True)
class FailedCode:
    """A code of errors: how many lines have it, and where some of them are."""

    code: str
    lines: int
    #: The batch, the number of the line and the path of the value, which may be absent.
    examples: list[tuple[str, int, str | None]]


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
    #: The batches that it is about, or the newest ones of the supplier, each with who started it.
    batches: list[tuple[BatchReport, str | None]]
    #: The plan and the waves of it that it is about: all, or one.
    plan: PlanReport | None = None
    waves: Sequence[WaveReport] = ()
    failed: list[FailedCode]
    rates: Rates | None
    totals: Totals
    differences: list[AccountDifference] = field(default_factory=list)
    undos: Sequence[Any] = ()
    decisions: list[Decision] = field(default_factory=list)
    versions: Versions


def find_subject(
    session: Session, target: str, *, organisation_id: int | None, wave: int | None = None
) -> ReportSubject:
    """Return the supplier with this code, or the batch or the plan of waves with this id.

    With `wave`, return the wave of that number in the plan with this id. `organisation_id` is the caller's
    organisation. None finds those of every organisation, for operators. Raise ImportSupplierNotFoundError if
    there is none of them, and with `wave` WavePlanNotFoundError and WaveNotFoundError.
    """
    if wave is not None:
        return _subject_of_plan(session, get_plan(session, target, organisation_id=organisation_id), wave)
    try:
        supplier = get_import_supplier(session, target, organisation_id=organisation_id)
        return ReportSubject(ReportKind.SUPPLIER, supplier)
    except ImportSupplierNotFoundError as error:
        try:
            return _subject_of_batch(session, get_batch(session, target, organisation_id=organisation_id))
        except BatchNotFoundError:
            pass
        try:
            return _subject_of_plan(session, get_plan(session, target, organisation_id=organisation_id))
        except WavePlanNotFoundError:
            raise error from None


def _subject_of_batch(session: Session, batch: Batch) -> ReportSubject:
    supplier = get_import_supplier_by_id(session, batch.import_supplier_id)
    wave = find_wave(session, batch.id)
    if wave is None:
        return ReportSubject(ReportKind.BATCH, supplier, (batch.id,))
    return ReportSubject(ReportKind.BATCH, supplier, (batch.id,), wave.plan_id, wave.number)


def _subject_of_plan(session: Session, plan: WavePlan, number: int | None = None) -> ReportSubject:
    supplier = get_import_supplier_by_id(session, plan.import_supplier_id)
    waves = list_waves(session, plan.id)
    if number is None:
        return ReportSubject(ReportKind.PLAN, supplier, tuple(wave.batch_id for wave in waves), plan.id)
    for wave in waves:
        if wave.number == number:
            return ReportSubject(ReportKind.WAVE, supplier, (wave.batch_id,), plan.id, number)
    raise WaveNotFoundError(found=str(number))


def make_report(sessions: sessionmaker[Session], subject: ReportSubject) -> Report:
    """Return the figures of a report. It compares every account, which takes seconds for 100,000 of them.

    Each part is a transaction of its own, so the figures of a batch that runs may be some seconds apart.
    """
    totals = Totals()
    differing = chain.from_iterable(
        find_differences(sessions, subject.supplier.id, totals, batch_id=batch_id)
        for batch_id in subject.batch_ids or (None,)
    )
    differences = list(islice(differing, MOST_DIFFERENCES))
    for _ in differing:  # so that the totals are complete
        pass
    with sessions.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = '10min'"))
        plan = report_plan(session, session.get_one(WavePlan, subject.plan_id)) if subject.plan_id else None
        waves = plan.waves if plan else []
        return Report(
            subject=subject,
            made_at=datetime.now(UTC),
            live_at=session.get_one(ImportSupplier, subject.supplier.id).live_at,
            sent=_count_sent(session, subject),
            batches=_read_batches(session, subject),
            plan=plan,
            waves=[wave for wave in waves if subject.wave in (None, wave.number)],
            failed=_read_failed(session, subject),
            rates=read_rates(session, subject.values()),
            totals=totals,
            differences=differences,
            undos=session.execute(sql.UNDOS, subject.values() | {"limit": MOST_UNDOS}).all(),
            decisions=_read_decisions(session, subject),
            versions=_read_versions(session),
        )


def _count_sent(session: Session, subject: ReportSubject) -> Sent:
    """Return what was sent by outcome. No account is in two waves of a plan."""
    counted = [
        asdict(count_sent(session, subject.supplier.id, batch_id=batch_id))
        for batch_id in subject.batch_ids or (None,)
    ]
    return Sent(**{name: sum(sent[name] for sent in counted) for name in counted[0]})


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


def _public(code: str, path: str | None) -> str | None:
    """Return a path without what a client chose itself: the name of an unknown field."""
    if path is None or code != "unknown_field":
        return path
    return path.rpartition(".")[0] or None


def _read_decisions(session: Session, subject: ReportSubject) -> list[Decision]:
    values = subject.values() | {"code": subject.supplier.code, "limit": MOST_DECISIONS}
    return [
        Decision(row.at, row.actor, row.action, row.subject_kind, row.subject, row.details or {})
        for row in session.execute(sql.DECISIONS, values)
    ]


def _read_versions(session: Session) -> Versions:
    revision = session.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    database = session.execute(text("SHOW server_version")).scalar_one()
    return Versions(version("migration-service"), revision, str(RULES_VERSION), f"PostgreSQL {database}")
