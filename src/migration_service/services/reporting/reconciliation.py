"""Reconciliation of created accounts: what was staged compared with what was created, exact to the cent.

The staged payloads are counted and summed as JSON, the created accounts as rows. The two sums share no
code, so this also finds what creation itself got wrong. Memory and each statement stay small however large
the book is, because it is read page by page. `services.reporting.sent` says what was sent and never created.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.orm import Session, sessionmaker

from migration_service.schemas.json import encode_json
from migration_service.schemas.moments import write_moment
from migration_service.services.batches.results import write_csv
from migration_service.services.reporting.added_data import (
    find_added_differences,
    find_differences_of_batches,
    find_kind,
)
from migration_service.services.reporting.book_totals import count_book
from migration_service.services.reporting.differences import AccountDifference, Difference, Totals
from migration_service.services.reporting.reconciliation_sql import (
    COMPARE,
    ID_MAP,
    LIST_ACCOUNT,
    LIST_PAGE,
    LIST_PAGE_OF_BATCH,
)
from migration_service.services.reporting.sent import find_open
from migration_service.services.reporting.sent_items import Sent
from migration_service.services.setup.suppliers import KnownSupplier

_PAGE = 2_000


def find_differences(
    sessions: sessionmaker[Session], import_supplier_id: int, totals: Totals, *, batch_id: UUID | None = None
) -> Iterator[AccountDifference]:
    """Yield every created account that differs, by number (or by line of the batch), and fill `totals`.

    With `batch_id`, only the accounts on the lines of that batch. What was added to accounts after their
    creation, and moved their balances, is left out on both sides. What batches added is compared afterwards
    with their lines. Each page is a transaction of its own.
    """
    with sessions.begin() as session:
        kind = find_kind(session, batch_id)
    if batch_id is not None and kind.is_added_data:
        yield from find_added_differences(sessions, import_supplier_id, totals, batch_id)
        return
    yield from _find_created(sessions, import_supplier_id, totals, batch_id)
    if batch_id is None:
        yield from find_differences_of_batches(sessions, import_supplier_id, totals)


def _find_created(
    sessions: sessionmaker[Session], import_supplier_id: int, totals: Totals, batch_id: UUID | None
) -> Iterator[AccountDifference]:
    after: Any = "" if batch_id is None else 0
    while after is not None:
        with sessions.begin() as session:
            after, found = compare_page(session, import_supplier_id, totals, after=after, batch_id=batch_id)
        yield from found


def compare_page(
    session: Session, import_supplier_id: int, totals: Totals, *, after: Any, batch_id: UUID | None
) -> tuple[Any, list[AccountDifference]]:
    """Compare the created accounts after `after`, a page of them, and add them to `totals`.

    Return where the next page starts (None: there was no account left), and the accounts that differ.
    """
    statement = LIST_PAGE if batch_id is None else LIST_PAGE_OF_BATCH
    values: dict[str, Any] = {"import_supplier_id": import_supplier_id, "limit": _PAGE, "after": after}
    if batch_id is not None:
        values["batch_id"] = batch_id
    page = session.execute(statement, values).all()
    if not page:
        return None, []
    found = _compare(session, page, totals)
    return page[-1].place, [*_order(page, found)]


def compare_account(session: Session, process_id: int) -> list[Difference]:
    """Return in which counts and sums one created account is not as it was staged."""
    page = session.execute(LIST_ACCOUNT, {"process_id": process_id}).all()  # none if it was removed just now
    return _compare(session, page, Totals()).get(process_id, [])


def _compare(session: Session, page: Sequence[Row[Any]], totals: Totals) -> dict[int, list[Difference]]:
    """Return the differences of a page's accounts, by the id of their import process."""
    comparable = [row.id for row in page if row.has_payload]
    totals.not_comparable += len(page) - len(comparable)
    imported, created = (sum(row.is_imported for row in page), sum(row.has_account for row in page))
    totals.add("accounts", Decimal(imported), Decimal(created))
    found: dict[int, list[Difference]] = {
        row.id: [Difference("accounts", Decimal(row.is_imported), Decimal(row.has_account))]
        for row in page
        if row.is_imported != row.has_account
    }
    for measure, staged_sum, created_sum, differing in session.execute(COMPARE, {"process_ids": comparable}):
        totals.add(measure, staged_sum, created_sum)
        for process_id, staged_value, created_value in differing or ():
            difference = Difference(measure, Decimal(staged_value), Decimal(created_value))
            found.setdefault(int(process_id), []).append(difference)
    totals.differing += len(found)
    return found


def _order(page: Sequence[Row[Any]], found: dict[int, list[Difference]]) -> Iterator[AccountDifference]:
    for row in page:
        if row.id in found:
            yield AccountDifference(row.external_account_number, row.service_account_number, found[row.id])


def stream_reconciliation(
    sessions: sessionmaker[Session], supplier: KnownSupplier, sent: Sent, *, batch_id: UUID | None = None
) -> Iterator[bytes]:
    """Yield the whole reconciliation as one JSON object, in pieces."""
    totals = Totals()
    yield b'{"import_supplier":%b,"sent":%b,"open":[' % (encode_json(supplier.code), encode_json(sent))
    yield from _join(find_open(sessions, supplier.id, batch_id=batch_id))
    yield b'],"book":%b,"differences":[' % encode_json(
        count_book(sessions, supplier.id, sent, batch_id=batch_id)
    )
    yield from _join(find_differences(sessions, supplier.id, totals, batch_id=batch_id))
    yield b"]," + encode_json(totals.to_dict())[1:]


def _join(items: Iterable[Any]) -> Iterator[bytes]:
    comma = b""
    for item in items:
        yield comma + encode_json(item)
        comma = b","


def stream_id_map(sessions: sessionmaker[Session], import_supplier_id: int) -> Iterator[bytes]:
    """Yield the old and the new number of every created account, as CSV with a header, in pieces."""
    yield write_csv([["external_account_number", "service_account_number", "account_created_at"]])
    after = ""
    while True:
        with sessions.begin() as session:
            values = {"import_supplier_id": import_supplier_id, "after": after, "limit": _PAGE}
            rows = session.execute(ID_MAP, values).all()
        if not rows:
            return
        after = rows[-1].external_account_number
        yield write_csv([number, new, write_moment(created_at)] for number, new, created_at in rows)
