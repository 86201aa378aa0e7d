"""Marking the accounts of a go-live in a worker, some at a time, once its moment has come.

A piece marks accounts, tells that they went live, releases their e-mails, and writes how far it has come, in
one transaction. Each
account is locked first, so that an undo, an erasure or added data either ends before or sees the new owner.
Accounts that others have locked are marked later.
"""

from itertools import takewhile
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, bindparam, func, select, text
from sqlalchemy.orm import Session

from migration_service.db.cancelling import allow_minutes
from migration_service.db.jobs import Progress
from migration_service.models import GoLive, ImportSupplier
from migration_service.schemas.events import EventType
from migration_service.services.emails.customer_emails import release_with_go_live
from migration_service.states import GoLiveState, LineStatus

#: The number of accounts marked in one transaction.
PIECE = 500

#: The accounts of a go-live after a number: of a supplier, of a batch, and with given numbers. What was
#: created later in a supplier that has gone live belongs to the platform from the beginning. Accounts of a
#: batch that were undone and created again are among its accounts, as in its receipt and its certificate.
OF_SUPPLIER = """
    FROM account WHERE account.import_supplier_id = :import_supplier_id
      AND account.external_account_number > :after AND account.created_at <= :until
"""
OF_BATCH = f"""
    FROM batch_line AS line
    JOIN account ON account.import_supplier_id = :import_supplier_id
     AND account.external_account_number = line.external_account_number
    WHERE line.batch_id = :batch_id
      AND line.status IN ('{LineStatus.IMPORTED}', '{LineStatus.REPLACED}')
      AND line.external_account_number > :after
"""
OF_NUMBERS = """
    FROM account WHERE account.import_supplier_id = :import_supplier_id
      AND account.external_account_number = ANY (CAST(:numbers AS text[]))
      AND account.external_account_number > :after
"""


def scope_of(batch_id: UUID | None, numbers: list[str] | None) -> str:
    """Return the SQL for the accounts of a go-live."""
    return OF_BATCH if batch_id else OF_SUPPLIER if numbers is None else OF_NUMBERS


def mark_piece(session: Session, go_live_id: UUID) -> Progress:
    """Mark some accounts of a go-live, unless somebody else does. The caller commits after each piece."""
    open_ = select(GoLive).where(GoLive.id == go_live_id, GoLive.finished_at.is_(None))
    due = open_.where(GoLive.live_at <= func.clock_timestamp()).execution_options(populate_existing=True)
    # First the supplier, as whoever changes a go-live. Whoever changes when e-mails are sent waits for this
    # piece, and releases what it has held back.
    supplier = select(ImportSupplier.id).join(GoLive, GoLive.import_supplier_id == ImportSupplier.id)
    supplier = supplier.where(GoLive.id == go_live_id)
    session.execute(supplier.with_for_update(read=True, of=ImportSupplier))
    it = session.scalars(due.with_for_update(skip_locked=True)).one_or_none()
    if it is None:
        return Progress.WAITS if session.scalar(select(open_.exists())) else Progress.OVER
    it.dispatched_at = func.clock_timestamp()
    found = find_unmarked(session, it, it.place, limit=PIECE)
    if not found:
        return _end(session, it)
    ids = [account_id for account_id, _ in found]
    locked = set(session.scalars(_LOCK, {"ids": ids}))
    if not locked:
        return Progress.WAITS
    session.execute(_MARK, _values(it) | {"ids": list(locked), "by": it.decided_by, "go_live_id": it.id})
    it.accounts += len(locked)
    it.emails += release_with_go_live(session, list(locked))
    it.place = ([it.place] + [number for _, number in takewhile(lambda row: row[0] in locked, found)])[-1]
    return Progress.WORKED


def find_unmarked(session: Session, it: GoLive, after: str = "", *, limit: int = 1) -> list[tuple[int, str]]:
    """Return the next accounts of a go-live that have not gone live, with their numbers."""
    allow_minutes(session)
    statement = _FIND[scope_of(it.batch_id, it.external_account_numbers)]
    rows = session.execute(statement, _values(it) | {"after": after, "limit": limit})
    return [(account_id, number) for account_id, number in rows]


def _end(session: Session, it: GoLive) -> Progress:
    """End a go-live, unless an account was created meanwhile by a transaction that began before its moment.

    Such transactions hold the supplier if they may have to send e-mails.
    """
    if it.is_of_supplier:
        session.get_one(ImportSupplier, it.import_supplier_id, with_for_update={"key_share": True})
    if find_unmarked(session, it):
        it.place = ""
        return Progress.WORKED
    it.state, it.finished_at = GoLiveState.COMPLETED, func.now()
    return Progress.OVER


def _values(it: GoLive) -> dict[str, Any]:
    return {
        "organisation_id": it.organisation_id,
        "import_supplier_id": it.import_supplier_id,
        "batch_id": it.batch_id,
        "numbers": it.external_account_numbers,
        "until": max(it.live_at, it.created_at),
    }


_IDS = bindparam("ids", type_=ARRAY(BigInteger))

_FIND = {
    scope: text(f"""
        SELECT account.id, account.external_account_number {scope} AND account.live_at IS NULL
        ORDER BY account.external_account_number LIMIT :limit""")
    for scope in (OF_SUPPLIER, OF_BATCH, OF_NUMBERS)
}

_LOCK = text("""
    SELECT id FROM account WHERE id = ANY (:ids) AND live_at IS NULL FOR NO KEY UPDATE SKIP LOCKED
""").bindparams(_IDS)

_MARK = text(f"""
    WITH marked AS (
        UPDATE account SET live_at = clock_timestamp(), live_by = :by WHERE id = ANY (:ids)
        RETURNING external_account_number, service_account_number)
    INSERT INTO event (organisation_id, import_supplier_id, type, data)
    SELECT :organisation_id, :import_supplier_id, '{EventType.ACCOUNT_WENT_LIVE}', jsonb_build_object(
        'external_account_number', external_account_number, 'service_account_number', service_account_number,
        'go_live_id', CAST(:go_live_id AS text))
    FROM marked ORDER BY external_account_number
""").bindparams(_IDS)
