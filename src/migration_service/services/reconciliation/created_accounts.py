"""Reconciliation of created accounts: every value that was staged compared with what was created.

The database makes JSON of the rows of each account, and compares it with the payload. The two share no code,
so this also finds what creation itself got wrong. Only what is not equal is read here, and compared value by
value. Memory and each statement stay small however large the book is, because it is read page by page.
`services.reconciliation.submitted` says what was sent and never created.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.orm import Session, sessionmaker

from migration_service.schemas.json import encode_json
from migration_service.schemas.moments import write_moment
from migration_service.services.batches.results.line_results import write_csv
from migration_service.services.imports.field_differences import compare_fields, read_json
from migration_service.services.reconciliation.added_data import (
    find_added_differences,
    find_differences_of_batches,
    find_kind,
)
from migration_service.services.reconciliation.book_totals import count_book
from migration_service.services.reconciliation.created_accounts_sql import (
    COMPARE,
    ID_MAP,
    LIST_ACCOUNT,
    LIST_PAGE,
    LIST_PAGE_OF_BATCH,
    PREPARE,
)
from migration_service.services.reconciliation.differences import AccountDifference, Difference, Totals
from migration_service.services.reconciliation.submitted import find_open
from migration_service.services.reconciliation.submitted_items import Sent
from migration_service.services.setup.suppliers import KnownSupplier

_PAGE = 2_000
#: Bytes of compressed payloads that one statement compares, so that it ends in time also if they are large.
_PAYLOADS = 4_000_000


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
    return page[-1].place, _compare(session, page, totals)


def compare_account(session: Session, process_id: int) -> AccountDifference | None:
    """Return in what one created account is not as it was staged: in nothing if it is.

    Return None if there is nothing to compare: no account, or no payload any more.
    """
    page = session.execute(LIST_ACCOUNT, {"process_id": process_id}).all()
    if not page or page[0].size is None:
        return None
    same = AccountDifference(page[0].external_account_number, page[0].service_account_number, [])
    return next(iter(_compare(session, page, Totals())), same)


def _compare(session: Session, page: Sequence[Row[Any]], totals: Totals) -> list[AccountDifference]:
    """Return the accounts of a page that differ, in its order, and add the page to `totals`."""
    imported, created = (sum(row.is_imported for row in page), sum(row.has_account for row in page))
    totals.add("accounts", Decimal(imported), Decimal(created))
    found = {
        row.id: AccountDifference(row.external_account_number, row.service_account_number, []) for row in page
    }
    for row in page:
        if row.is_imported != row.has_account:
            difference = Difference("accounts", Decimal(row.is_imported), Decimal(row.has_account))
            found[row.id].differences.append(difference)
    session.execute(PREPARE)
    for process_ids in _pieces(page, totals):
        for process_id, measure, staged, made in session.execute(COMPARE, {"process_ids": process_ids}):
            if process_id is None:
                totals.add(measure, Decimal(staged), Decimal(made))
            elif measure is None:
                values = compare_fields(read_json(staged), read_json(made))
                found[process_id].values.extend(values)
            elif Decimal(staged) != Decimal(made):
                difference = Difference(measure, Decimal(staged), Decimal(made))
                found[process_id].differences.append(difference)
    differing = [it for it in found.values() if it.differences or it.values]
    totals.differing += len(differing)
    return differing


def _pieces(page: Sequence[Row[Any]], totals: Totals) -> Iterator[list[int]]:
    """Yield the processes of a page that can be compared, as many at a time as one statement takes."""
    piece: list[int] = []
    size = 0
    for row in page:
        if row.size is None:
            totals.not_comparable += 1
            continue
        if piece and size + row.size > _PAYLOADS:
            yield piece
            piece, size = [], 0
        piece.append(row.id)
        size += row.size
        totals.compared += row.has_account
    if piece:
        yield piece


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
    yield b"]," + encode_json(totals.to_dict(sent.open))[1:]


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
