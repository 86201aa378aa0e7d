"""Figures for operators: how many accounts and attempts there are, and what is in progress.

`count_accounts` reads whole tables, so that a worker does it once in a while; the rest is quick enough for
every question.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service.models import AccountImportProcess, Attempt, Batch, ImportSupplier, ServiceLimit
from migration_service.services.batches.counts import count_lines
from migration_service.states import ImportState


@dataclass(frozen=True, slots=True)
class InProgress:
    """What is being created at this moment."""

    attempts: int
    #: How long the one has been there whose message was published the longest ago; 0 where there is none.
    oldest_seconds: float
    #: The concurrency limit; None: off.
    limit: int | None


def read_in_progress(session: Session) -> InProgress:
    """What is in progress, from an index that has nothing else in it."""
    age = func.extract("epoch", func.now() - func.min(AccountImportProcess.dispatched_at))
    attempts, oldest = session.execute(
        select(func.count(), func.coalesce(age, 0)).where(
            AccountImportProcess.state == ImportState.IN_PROGRESS
        )
    ).one()
    limit = session.scalar(select(ServiceLimit.concurrency_limit))
    return InProgress(attempts, max(float(oldest), 0.0), limit)


@dataclass(frozen=True, slots=True)
class OpenBatches:
    """The batches of a supplier that are not over, taken together."""

    import_supplier: str
    #: How many there are in each state.
    batches: dict[str, int]
    #: Their lines by status.
    lines: dict[str, int]


def read_open_batches(session: Session) -> list[OpenBatches]:
    """How far the batches are that are not over, by supplier."""
    rows = session.execute(
        select(Batch.id, Batch.state, ImportSupplier.code)
        .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
        .where(Batch.finished_at.is_(None))
        .order_by(ImportSupplier.code)
    ).all()
    lines = count_lines(session, [row.id for row in rows])
    batches: dict[str, Counter[str]] = {}
    sums: dict[str, Counter[str]] = {}
    for row in rows:
        batches.setdefault(row.code, Counter())[row.state] += 1
        sums.setdefault(row.code, Counter()).update(lines[row.id])
    return [OpenBatches(code, dict(batches[code]), dict(sums[code])) for code in batches]


def count_accounts(session: Session) -> dict[str, Any]:
    """Accounts by supplier and state, finished attempts by outcome and code; ready for JSON.

    `{"accounts": [[supplier, state, count], ...], "attempts": [[outcome, code, count], ...]}`. Reads
    every row: seconds where there are millions.
    """
    session.execute(text("SET LOCAL statement_timeout = '40s'"))
    grouped = (
        select(AccountImportProcess.import_supplier_id, AccountImportProcess.state, func.count().label("n"))
        .group_by(AccountImportProcess.import_supplier_id, AccountImportProcess.state)
        .subquery()
    )
    accounts = session.execute(
        select(ImportSupplier.code, grouped.c.state, grouped.c.n).join(
            grouped, grouped.c.import_supplier_id == ImportSupplier.id
        )
    )
    attempts = session.execute(
        select(Attempt.outcome, func.coalesce(Attempt.error_code, ""), func.count())
        .where(Attempt.outcome.is_not(None))
        .group_by(Attempt.outcome, Attempt.error_code)
    )
    return {
        "accounts": [list(row) for row in accounts],
        "attempts": [list(row) for row in attempts],
    }


@dataclass(frozen=True, slots=True)
class StuckAttempt:
    """An attempt that is in progress for longer than anybody waits."""

    import_supplier: str
    external_account_number: str
    tries: int
    seconds: float


def find_stuck_attempts(session: Session, *, seconds: float, limit: int = 5) -> list[StuckAttempt]:
    """The oldest attempts in progress that began more than `seconds` ago."""
    age = func.extract("epoch", func.now() - Attempt.created_at)
    process = AccountImportProcess
    rows = session.execute(
        select(ImportSupplier.code, process.external_account_number, process.tries, age)
        .join(Attempt, Attempt.id == process.attempt_id)
        .join(ImportSupplier, ImportSupplier.id == process.import_supplier_id)
        .where(process.state == ImportState.IN_PROGRESS, age > seconds)
        .order_by(Attempt.created_at)
        .limit(limit)
    )
    return [StuckAttempt(code, number, tries, float(old)) for code, number, tries, old in rows]
