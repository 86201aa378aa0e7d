"""The accounts that a supplier sent, and the open ones: not created, skipped or acknowledged.

Lines of stage and import batches and single stagings count as sent, each account number once. A line without
a number counts separately. Each account is counted by its current state, so it is no longer open once a later
line has settled it. While a newer version waits on a line, it counts as waiting. `added_data` does the same
for a batch of added data.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.reconciliation.added_data import (
    count_added,
    find_open_lines,
    is_of_added_data,
)
from migration_service.services.reconciliation.added_data_sql import COUNT_REFUSED
from migration_service.services.reconciliation.submitted_items import OpenItem, Submitted
from migration_service.services.reconciliation.submitted_sql import (
    COUNT_PROCESSES,
    COUNT_PROCESSES_OF_BATCH,
    COUNT_REMOVED_LINES,
    COUNT_UNDECIDED,
    COUNT_UNSTAGED,
    LIST_STAGED,
    LIST_STAGED_OF_BATCH,
    LIST_UNSTAGED,
)
from migration_service.states import ImportState, LineStatus, OpenReason

PAGE = 10_000


def count_submitted(session: Session, import_supplier_id: int, *, batch_id: UUID | None = None) -> Submitted:
    """Return the number of sent accounts and lines by outcome, for the supplier or one batch."""
    session.execute(text("SET LOCAL statement_timeout = '10min'"))
    if batch_id is not None and is_of_added_data(session, batch_id):
        return count_added(session, import_supplier_id, batch_id)
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id}
    states = dict.fromkeys(ImportState, 0)
    older, older_open = states.copy(), states.copy()
    statement = COUNT_PROCESSES if batch_id is None else COUNT_PROCESSES_OF_BATCH
    for state, *numbers in session.execute(statement, values):
        states[state], older[state], older_open[state] = numbers
    for state, *numbers in session.execute(COUNT_UNDECIDED, values):
        for counted, number in zip((states, older, older_open), numbers, strict=True):
            counted[state] -= number
    refused, waiting, acknowledged = session.execute(COUNT_UNSTAGED, values).one()
    staged = states[ImportState.PENDING] + states[ImportState.IN_PROGRESS]
    created = ImportState.IMPORTED
    acknowledged += older[created] - older_open[created]
    return Submitted(
        sent=refused + waiting + sum(states.values()),
        refused=refused,
        waiting=waiting,
        staged=staged,
        created=states[created],
        skipped=states[ImportState.SKIPPED],
        acknowledged=acknowledged,
        open=refused + waiting + staged + older[created] - acknowledged,
        staged_older_version=older[ImportState.PENDING] + older[ImportState.IN_PROGRESS],
        created_older_version=older[created],
        lines_removed=int(session.scalar(COUNT_REMOVED_LINES, values) or 0),
        added_lines_refused=0 if batch_id else int(session.scalar(COUNT_REFUSED, values) or 0),
    )


def find_open(
    sessions: sessionmaker[Session], import_supplier_id: int, *, batch_id: UUID | None = None
) -> Iterator[OpenItem]:
    """Yield all open items.

    First accounts that are staged or were created from an older version, then refused accounts, then lines
    without a number. For a batch of added data, its open lines. Each page is read in a separate transaction.
    """
    with sessions.begin() as session:
        adds_data = batch_id is not None and is_of_added_data(session, batch_id)
    if batch_id is not None and adds_data:
        yield from find_open_lines(sessions, import_supplier_id, batch_id)
        return
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id, "limit": PAGE}
    yield from _find_staged(sessions, values)
    place: dict[str, Any] = {"unnumbered": False, "number_key": "", "batch_key": "", "line_key": -1}
    while True:
        with sessions.begin() as session:
            session.execute(text("SET LOCAL statement_timeout = '10min'"))
            rows = session.execute(LIST_UNSTAGED, values | place).all()
        for row in rows:
            reason = OpenReason.REFUSED if row.status == LineStatus.FAILED else OpenReason.WAITING
            yield OpenItem(
                row.external_account_number, reason, row.batch_id, row.line_number, row.errors or []
            )
        if len(rows) < PAGE:
            return
        place = {name: getattr(rows[-1], name) for name in place}


def _find_staged(sessions: sessionmaker[Session], values: dict[str, Any]) -> Iterator[OpenItem]:
    statement = LIST_STAGED if values["batch_id"] is None else LIST_STAGED_OF_BATCH
    after = ""
    while True:
        with sessions.begin() as session:
            rows = session.execute(statement, values | {"after": after}).all()
        for row in rows:
            yield _describe(row)
        if len(rows) < PAGE:
            return
        after = rows[-1].place


def _describe(row: Row[Any]) -> OpenItem:
    if not row.is_older:
        return OpenItem(row.external_account_number, OpenReason.STAGED)
    reason = OpenReason.STAGED_OLDER_VERSION if row.is_staged else OpenReason.CREATED_OLDER_VERSION
    return OpenItem(row.external_account_number, reason, row.batch_id, row.line_number, row.errors)
