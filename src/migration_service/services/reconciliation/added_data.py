"""Reconciliation of added data: the lines of its batches compared with the accounts.

The database compares what the worker understood of the lines with the rows of the accounts. The two sums
share no code, so this also detects mistakes of the adding itself. A batch is compared chunk by chunk, because
a chunk has all lines of its accounts.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch
from migration_service.services.reconciliation.added_data_sql import (
    COMPARE_ADDED,
    COUNT_LINES,
    COUNT_WITHOUT_TEXT,
    LIST_BATCHES,
    LIST_CHUNKS,
    LIST_OPEN,
    NUMBERS,
)
from migration_service.services.reconciliation.differences import AccountDifference, Difference, Totals
from migration_service.services.reconciliation.submitted_items import OpenItem, Submitted
from migration_service.states import BatchKind, LineStatus, OpenReason

#: The numbers of chunks compared, and of open lines read, by one statement.
CHUNKS = 20
PAGE = 10_000


def is_of_added_data(session: Session, batch_id: UUID) -> bool:
    """Return whether the lines of a batch add data to accounts."""
    return BatchKind(session.get_one(Batch, batch_id).kind).is_added_data


def count_added(session: Session, import_supplier_id: int, batch_id: UUID) -> Submitted:
    """Return the number of lines of a batch of added data by outcome."""
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id}
    rows = session.execute(COUNT_LINES, values).all()
    lines = {LineStatus(row.status): int(row.lines) for row in rows}
    settled = (LineStatus.ADDED, LineStatus.ALREADY_ADDED)
    refused, skipped = lines.get(LineStatus.FAILED, 0), lines.get(LineStatus.SKIPPED, 0)
    created = sum(lines.get(status, 0) for status in settled)
    sent = sum(lines.values())
    acknowledged = sum(int(row.acknowledged) for row in rows)
    return Submitted(
        sent=sent,
        refused=refused,
        waiting=sent - refused - skipped - created,
        staged=0,
        created=created,
        skipped=skipped,
        acknowledged=acknowledged,
        open=sent - skipped - created - acknowledged,
        lines_removed=0,
    )


def find_open_lines(
    sessions: sessionmaker[Session], import_supplier_id: int, batch_id: UUID
) -> Iterator[OpenItem]:
    """Yield the lines of a batch of added data that were neither added nor acknowledged."""
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id, "limit": PAGE}
    after = 0
    while True:
        with sessions.begin() as session:
            rows = session.execute(LIST_OPEN, values | {"after": after}).all()
        for row in rows:
            reason = OpenReason.REFUSED if row.status == LineStatus.FAILED else OpenReason.WAITING
            yield OpenItem(row.external_account_number, reason, batch_id, row.line_number, row.errors or [])
        if len(rows) < PAGE:
            return
        after = rows[-1].line_number


def find_added_differences(
    sessions: sessionmaker[Session], import_supplier_id: int, totals: Totals, batch_id: UUID
) -> Iterator[AccountDifference]:
    """Yield every account that differs from the data added by the lines of a batch, and fill `totals`."""
    with sessions.begin() as session:
        kind = BatchKind(session.get_one(Batch, batch_id).kind)
    yield from _find(sessions, import_supplier_id, totals, batch_id, kind=kind, trace=None)


def find_differences_of_batches(
    sessions: sessionmaker[Session], import_supplier_id: int, totals: Totals
) -> Iterator[AccountDifference]:
    """Do the same for all batches of a supplier. An item in several of them counts once."""
    with sessions.begin() as session:
        batches = session.execute(LIST_BATCHES, {"import_supplier_id": import_supplier_id}).all()
    for batch_id, kind in batches:
        trace = f"batch {batch_id}"
        yield from _find(sessions, import_supplier_id, totals, batch_id, kind=BatchKind(kind), trace=trace)


def _find(
    sessions: sessionmaker[Session],
    import_supplier_id: int,
    totals: Totals,
    batch_id: UUID,
    *,
    kind: BatchKind,
    trace: str | None,
) -> Iterator[AccountDifference]:
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id}
    after = 0
    while True:
        with sessions.begin() as session:
            page = {"batch_id": batch_id, "after": after, "limit": CHUNKS}
            chunks = session.scalars(LIST_CHUNKS, page).all()
            where = values | {"chunks": list(chunks), "trace": trace}
            found = _compare(session, where, kind, totals) if chunks else []
        if not chunks:
            return
        after = chunks[-1]
        yield from found


def _compare(
    session: Session, values: dict[str, Any], kind: BatchKind, totals: Totals
) -> Sequence[AccountDifference]:
    totals.not_comparable += session.scalar(COUNT_WITHOUT_TEXT, values) or 0
    found: dict[str, list[Difference]] = {}
    for measure, sent, added, differing in session.execute(COMPARE_ADDED[kind], values):
        totals.add(measure, sent, added)
        for number, sent_value, added_value in differing or ():
            difference = Difference(measure, Decimal(sent_value), Decimal(added_value))
            found.setdefault(number, []).append(difference)
    totals.differing += len(found)
    if not found:
        return []
    rows = session.execute(NUMBERS, values | {"numbers": list(found)})
    numbers = {row.external_account_number: row.service_account_number for row in rows}
    return [AccountDifference(number, numbers.get(number), found[number]) for number in sorted(found)]
