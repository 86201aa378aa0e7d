"""Reconciliation of created accounts: every staged value compared with the created one.

The database converts the rows of each account to JSON and compares it with the payload. This shares no code
with the creation, so it also detects mistakes of the creation itself. Only unequal accounts are read here,
and compared value by value. The book is read in pieces, so memory and statements stay small for a book of any
size. `services.reconciliation.submitted` covers accounts that were sent but never created.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from itertools import islice
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.moments import write_moment
from migration_payloads.normal_form import ACCOUNT, read_json
from migration_payloads.schemas.json import encode_json, finite
from migration_service.services.batches.results.line_results import write_csv
from migration_service.services.reconciliation.added_data import (
    find_added_differences,
    find_differences_of_batches,
    is_of_added_data,
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
from migration_service.services.reconciliation.submitted_items import Submitted
from migration_service.services.setup.suppliers import KnownSupplier

#: The numbers of accounts read, and of entries written, together.
PAGE, WRITTEN = 2_000, 500
#: Bytes of compressed payloads compared by one statement, so that it ends in time even if they are large.
PAYLOADS = 4_000_000

_Rows: TypeAlias = Sequence[Row[Any]]
_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def find_differences(
    sessions: sessionmaker[Session],
    import_supplier_id: int,
    totals: Totals,
    *,
    batch_id: UUID | None = None,
    connections: int = 1,
) -> Iterator[AccountDifference]:
    """Yield every created account that differs, by number (or by line of the batch), and fill `totals`.

    With `batch_id`, only the accounts on the lines of that batch. Data added to accounts after their
    creation, and its effect on balances, is left out on both sides. Data added by batches is reconciled in a
    second pass, against the lines of those batches. Accounts are compared over this many connections in
    parallel, each piece in a transaction.
    """
    with sessions.begin() as session:
        adds_data = batch_id is not None and is_of_added_data(session, batch_id)
    if batch_id is not None and adds_data:
        yield from find_added_differences(sessions, import_supplier_id, totals, batch_id)
        return

    def compare(piece: _Rows) -> tuple[_Rows, _Rows]:
        with sessions.begin() as session:
            return piece, _compare(session, piece)

    pieces = _list_pieces(sessions, import_supplier_id, batch_id)
    for piece, compared in (
        _work_ahead(compare, pieces, connections) if connections > 1 else map(compare, pieces)
    ):
        yield from _find_differing(piece, compared, totals)
    if batch_id is None:
        yield from find_differences_of_batches(sessions, import_supplier_id, totals)


def _list_pieces(
    sessions: sessionmaker[Session], import_supplier_id: int, batch_id: UUID | None
) -> Iterator[_Rows]:
    after: Any = "" if batch_id is None else 0
    while True:
        with sessions.begin() as session:
            page = _list_page(session, import_supplier_id, after, batch_id)
        if not page:
            return
        yield from _cut(page)
        after = page[-1].place


def _work_ahead(work: Callable[[_Item], _Done], items: Iterable[_Item], threads: int) -> Iterator[_Done]:
    """Yield the results in the order of the items. Only a few items are processed ahead."""
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[_Done]] = deque()
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        yield from (future.result() for future in ahead)


def compare_page(
    session: Session, import_supplier_id: int, totals: Totals, *, after: Any, batch_id: UUID | None
) -> tuple[Any, list[AccountDifference]]:
    """Compare a page of created accounts, starting after `after`, and add them to `totals`.

    Return the start of the next page, or None if no account is left, and the accounts that differ.
    """
    page = _list_page(session, import_supplier_id, after, batch_id)
    pieces = _cut(page)
    found = [it for piece in pieces for it in _find_differing(piece, _compare(session, piece), totals)]
    return page[-1].place if page else None, found


def compare_account(session: Session, process_id: int) -> AccountDifference | None:
    """Return the differences of one created account from its staged payload.

    Return None if there is nothing to compare, because the account or its payload does not exist.
    """
    piece = session.execute(LIST_ACCOUNT, {"process_id": process_id}).all()
    if not piece or piece[0].size is None:
        return None
    same = AccountDifference(piece[0].external_account_number, piece[0].service_account_number, [])
    return next(iter(_find_differing(piece, _compare(session, piece), Totals())), same)


def _list_page(session: Session, import_supplier_id: int, after: Any, batch_id: UUID | None) -> _Rows:
    values: dict[str, Any] = {"import_supplier_id": import_supplier_id, "limit": PAGE, "after": after}
    if batch_id is None:
        return session.execute(LIST_PAGE, values).all()
    return session.execute(LIST_PAGE_OF_BATCH, values | {"batch_id": batch_id}).all()


def _cut(page: _Rows) -> Iterator[_Rows]:
    """Yield the processes of a page in pieces, each for one statement to compare."""
    first = size = 0
    for place, row in enumerate(page):
        if size and size + (row.size or 0) > PAYLOADS:
            yield page[first:place]
            first, size = place, 0
        size += row.size or 0
    if page:
        yield page[first:]


def _compare(session: Session, piece: _Rows) -> _Rows:
    session.execute(PREPARE)
    return session.execute(COMPARE, {"process_ids": [row.id for row in piece if row.size is not None]}).all()


def _find_differing(piece: _Rows, compared: _Rows, totals: Totals) -> list[AccountDifference]:
    """Return the differing accounts of a piece, in order, and add the piece to `totals`."""
    found = {}
    for row in piece:
        found[row.id] = AccountDifference(row.external_account_number, row.service_account_number, [])
        imported, created = Decimal(row.is_imported), Decimal(row.has_account)
        totals.add("accounts", imported, created)
        if imported != created:
            found[row.id].differences.append(Difference("accounts", imported, created))
        totals.compared += row.has_account and row.size is not None
        totals.not_comparable += row.size is None
    for row in compared:
        if row.measure is None:
            differences = ACCOUNT.find_differences(read_json(row.staged), read_json(row.created))
            found[row.id].values.extend(differences)
            continue
        difference = Difference(row.measure, Decimal(row.staged), Decimal(row.created))
        totals.add(difference.measure, difference.staged, difference.created)
        if row.id is not None and difference.staged != difference.created:
            found[row.id].differences.append(difference)
    differing = [it for it in found.values() if it.differences or it.values]
    totals.differing += len(differing)
    return differing


def stream_reconciliation(
    sessions: sessionmaker[Session], supplier: KnownSupplier, sent: Submitted, *, batch_id: UUID | None = None
) -> Iterator[bytes]:
    """Yield the whole reconciliation as one JSON object, in pieces."""
    totals = Totals()
    yield b'{"import_supplier":%b,"sent":%b,"open":[' % (encode_json(supplier.code), encode_json(sent))
    yield from _join(find_open(sessions, supplier.id, batch_id=batch_id))
    book = count_book(sessions, supplier.id, sent, batch_id=batch_id)
    yield b'],"book":%b,"differences":[' % encode_json(finite(book))
    yield from _join(find_differences(sessions, supplier.id, totals, batch_id=batch_id))
    yield b"]," + encode_json(finite(totals.to_dict(sent.open)))[1:]


def _join(items: Iterator[Any]) -> Iterator[bytes]:
    comma = b""
    while piece := list(islice(items, WRITTEN)):
        yield comma + b",".join(encode_json(finite(item)) for item in piece)
        comma = b","


def stream_id_map(sessions: sessionmaker[Session], import_supplier_id: int) -> Iterator[bytes]:
    """Yield the old and the new number of every created account, as CSV with a header, in pieces."""
    yield write_csv([["external_account_number", "service_account_number", "account_created_at"]])
    after = ""
    while True:
        with sessions.begin() as session:
            values = {"import_supplier_id": import_supplier_id, "after": after, "limit": PAGE}
            rows = session.execute(ID_MAP, values).all()
        if not rows:
            return
        after = rows[-1].external_account_number
        yield write_csv([number, new, write_moment(created_at)] for number, new, created_at in rows)
