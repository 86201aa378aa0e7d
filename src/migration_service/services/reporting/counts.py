"""Counts for operators: accounts, attempts, failures, and work in progress.

`count_accounts` reads whole tables, so a worker calls it periodically. All
others except `count_created_by_day` are fast enough for every request.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Double, cast, func, select, text
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.db.cancelling import allow_minutes
from migration_service.errors import AccountFailedValidationError
from migration_service.models import (
    AccountImportProcess,
    Attempt,
    Batch,
    BatchChunk,
    ImportSupplier,
    ServiceLimit,
)
from migration_service.services.batches.results.activity import Activity, Waiting, read_activity, read_waiting
from migration_service.services.batches.results.counts import count_lines
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED
from migration_service.services.reconciliation.submitted import REFUSED_BY_CODE
from migration_service.services.reporting.import_suppliers import count_states
from migration_service.states import BatchMode, BatchState, ImportState, Outcome, SupplierStatus


@dataclass(frozen=True, slots=True)
class InProgress:
    """The accounts that are being created now."""

    #: The number of attempts of single requests and of batches. Each holds a slot.
    attempts: int
    #: Seconds since the oldest attempt of a single request started, or 0 if there is none.
    oldest_seconds: float
    #: The concurrency limit, or None if it is off.
    limit: int | None


def list_replication_slots(session: Session) -> Sequence[Any]:
    """Return the replication slots of a primary server, which are visible to every role.

    PostgreSQL keeps its WAL, of which `held_bytes` is the size, until the reader of a slot has read it.
    """
    return session.execute(_REPLICATION_SLOTS).all()


_REPLICATION_SLOTS = text("""
    SELECT slot_name AS name, active,
           coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint AS held_bytes
    FROM pg_replication_slots WHERE NOT pg_is_in_recovery() AND NOT temporary
""")


def read_database_bytes(session: Session) -> int:
    """Return the size of the database on disk."""
    return session.scalar(select(func.pg_database_size(func.current_database()))) or 0


def read_in_progress(session: Session) -> InProgress:
    """Return the accounts in progress, from two indexes that contain nothing else."""
    age = func.extract("epoch", func.now() - func.min(Attempt.created_at))
    attempts, oldest = session.execute(
        select(func.count(), func.coalesce(age, 0))
        .select_from(AccountImportProcess)
        .outerjoin(Attempt, Attempt.id == AccountImportProcess.attempt_id)
        .where(AccountImportProcess.state == ImportState.IN_PROGRESS)
    ).one()
    of_batches = session.scalar(
        select(func.coalesce(func.sum(func.cardinality(BatchChunk.attempts)), 0))
        .join(Batch, Batch.id == BatchChunk.batch_id)
        .where(BatchChunk.attempts.is_not(None), Batch.mode.in_([BatchMode.IMPORT, BatchMode.DRY_RUN]))
    )
    limit = session.scalar(select(ServiceLimit.concurrency_limit))
    return InProgress(attempts + int(of_batches or 0), max(float(oldest), 0.0), limit)


def list_running_requests(
    session: Session, *, import_supplier_ids: Collection[int] | None, limit: int = 100
) -> Sequence[Any]:
    """Return the attempts of single requests in progress, oldest first, of all suppliers if None."""
    process = AccountImportProcess
    return session.execute(
        select(
            ImportSupplier.code.label("import_supplier"),
            process.external_account_number,
            Attempt.id.label("attempt_id"),
            Attempt.dry_run,
            process.tries,
            _age(Attempt.created_at.expression).label("seconds"),
        )
        .join(Attempt, Attempt.id == process.attempt_id)
        .join(ImportSupplier, ImportSupplier.id == process.import_supplier_id)
        .where(process.state == ImportState.IN_PROGRESS, _among(import_supplier_ids))
        .order_by(Attempt.created_at)
        .limit(limit)
    ).all()


def list_running_chunks(
    session: Session, *, import_supplier_ids: Collection[int] | None, limit: int = 100
) -> Sequence[Any]:
    """Return the chunks that workers are processing, oldest first. None stands for all suppliers."""
    return session.execute(
        select(
            ImportSupplier.code.label("import_supplier"),
            Batch.id.label("batch_id"),
            func.coalesce(Batch.name, Batch.file_name).label("batch_name"),
            BatchChunk.first_line,
            BatchChunk.last_line,
            func.cardinality(BatchChunk.attempts).label("attempts"),
            BatchChunk.tries,
            _age(BatchChunk.dispatched_at.expression).label("seconds"),
        )
        .join(Batch, Batch.id == BatchChunk.batch_id)
        .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
        .where(BatchChunk.attempts.is_not(None), _among(import_supplier_ids))
        .order_by(BatchChunk.dispatched_at)
        .limit(limit)
    ).all()


def _age(since: ColumnElement[Any]) -> ColumnElement[float]:
    return cast(func.coalesce(func.extract("epoch", func.now() - since), 0), Double)


def _among(import_supplier_ids: Collection[int] | None) -> ColumnElement[bool]:
    if import_supplier_ids is None:
        return ImportSupplier.id.is_not(None)
    return one_of(ImportSupplier.id.expression, import_supplier_ids)


@dataclass(slots=True)
class OpenBatches:
    """The totals of the open batches of a supplier."""

    import_supplier: str
    #: The number of batches in each state.
    batches: Counter[str] = field(default_factory=Counter)
    #: The number of their lines by status.
    lines: Counter[str] = field(default_factory=Counter)
    #: The longest time, in seconds, without a processed line in a running batch with pending lines.
    idle_seconds: float = 0.0
    #: The number of batches paused by their error threshold.
    paused_by_errors: int = 0


def read_open_batches(session: Session) -> list[OpenBatches]:
    """Return the progress of the open batches by supplier."""
    rows = session.execute(
        select(Batch.id, Batch.state, Batch.reason, ImportSupplier.code)
        .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
        .where(Batch.finished_at.is_(None))
        .order_by(ImportSupplier.code)
    ).all()
    lines = count_lines(session, [row.id for row in rows])
    activity = read_activity(session, [row.id for row in rows])
    found: dict[str, OpenBatches] = {}
    for row in rows:
        it = found.setdefault(row.code, OpenBatches(row.code))
        it.batches[row.state] += 1
        it.lines.update(lines[row.id])
        it.paused_by_errors += row.reason == ERROR_THRESHOLD_REACHED
        if row.id in activity:
            it.idle_seconds = max(it.idle_seconds, activity[row.id].idle_seconds)
    return list(found.values())


def read_running_batches(session: Session) -> tuple[dict[UUID, Activity], dict[UUID, Waiting]]:
    """Return the activity of the running batches with pending lines, the longest idle first.

    The second are those that have only deferred lines left.
    """
    running = session.scalars(select(Batch.id).where(Batch.state == BatchState.RUNNING)).all()
    found = read_activity(session, running).items()
    return dict(sorted(found, key=lambda it: -it[1].idle_seconds)), read_waiting(session, running)


def list_paused_suppliers(session: Session) -> list[tuple[str, int]]:
    """Return the code of each paused supplier, and the number of batches that wait for it."""
    rows = session.execute(
        select(ImportSupplier.code, func.count(Batch.id))
        .outerjoin(
            Batch, (Batch.import_supplier_id == ImportSupplier.id) & (Batch.state == BatchState.WAITING)
        )
        .where(ImportSupplier.status == SupplierStatus.PAUSED)
        .group_by(ImportSupplier.code)
        .order_by(ImportSupplier.code)
    )
    return [(code, number) for code, number in rows]


def count_by_state(session: Session) -> list[list[Any]]:
    """Return the code, the state and the number of accounts for each supplier and state that has any."""
    codes = {row.id: row.code for row in session.execute(select(ImportSupplier.id, ImportSupplier.code))}
    states = count_states(session, codes)
    return [[codes[pk], *it] for pk, counts in states.items() for it in counts.items() if it[1]]


def count_accounts(session: Session) -> dict[str, Any]:
    """Return accounts by supplier and state, and finished attempts by outcome and code, ready for JSON.

    `{"accounts": [[supplier, state, count], ...], "attempts": [[outcome, code, count], ...]}`. Lines of
    import batches that were refused before an attempt count as failed. This reads every row, which takes
    seconds if there are millions.
    """
    allow_minutes(session, "40s")
    attempts = session.execute(
        select(Attempt.outcome, func.coalesce(Attempt.error_code, ""), func.count())
        .where(Attempt.outcome.is_not(None))
        .group_by(Attempt.outcome, Attempt.error_code)
    )
    refused = session.scalar(
        select(func.sum(BatchChunk.refused))
        .join(Batch, Batch.id == BatchChunk.batch_id)
        .where(Batch.mode == BatchMode.IMPORT)
    )
    counted = Counter({(outcome, code): number for outcome, code, number in attempts})
    if refused:
        counted[Outcome.FAILED.value, AccountFailedValidationError.code] += int(refused)
    return {
        "accounts": count_by_state(session),
        "attempts": [[outcome, code, number] for (outcome, code), number in counted.items()],
    }


class CreatedOnDay(NamedTuple):
    """The number of accounts created on a day."""

    day: date
    accounts: int


def count_created_by_day(
    session: Session, import_supplier_id: int, *, days: int, zone: ZoneInfo
) -> list[CreatedOnDay]:
    """Return the number of a supplier's accounts created on each of the last days, including today.

    This reads all accounts of the supplier, which takes a second if there are a million.
    """
    values = {"import_supplier_id": import_supplier_id, "days": days, "zone": str(zone)}
    rows = session.execute(_CREATED, values).all()
    counted = {row.day: row.accounts for row in rows}
    today = session.execute(_TODAY, {"zone": str(zone)}).scalar_one()
    wanted = [today - timedelta(days=days - 1 - index) for index in range(days)]
    return [CreatedOnDay(day, counted.get(day, 0)) for day in wanted]


def count_failures_by_code(
    session: Session, import_supplier_id: int, *, limit: int = 10
) -> list[tuple[str, int]]:
    """Return the error codes of what is refused now and not acknowledged, the most frequent first.

    These are lines of which nothing is staged, and newer versions of accounts.
    """
    values = {"import_supplier_id": import_supplier_id, "batch_id": None, "examples": 0, "limit": limit}
    return [(row.code, row.lines) for row in session.execute(REFUSED_BY_CODE, values)]


_TODAY = text("SELECT CAST(now() AT TIME ZONE :zone AS date)")

_CREATED = text("""
    SELECT CAST(account_created_at AT TIME ZONE :zone AS date) AS day, count(*) AS accounts
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id
      AND account_created_at >= date_trunc('day', now() AT TIME ZONE :zone) AT TIME ZONE :zone
                                - make_interval(days => CAST(:days AS integer) - 1)
    GROUP BY 1
""")
