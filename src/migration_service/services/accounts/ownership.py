"""The owner of a created account: the old system until its go-live, and the new platform from then on.

An account goes live with its supplier, or earlier with its wave or by itself, and the earliest moment counts.
Whoever has to know the owner asks here, so that there is always exactly one.
"""

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service.models import Account, ImportSupplier
from migration_service.states import Owner

#: SQL for whether the `supplier` has gone live. It does not use now(), because the transaction may have
#: started before that.
SUPPLIER_IS_LIVE = "(supplier.live_at <= clock_timestamp()) IS TRUE"

#: SQL for whether an `account` of the `supplier` has the owner `new`.
IS_NEW = "(least(account.live_at, supplier.live_at) <= clock_timestamp()) IS TRUE"


def has_gone_live(session: Session, import_supplier_id: int) -> bool:
    """Return whether a supplier has gone live, and all of its accounts with it."""
    live = select(ImportSupplier.live_at <= func.clock_timestamp())
    return bool(session.scalar(live.where(ImportSupplier.id == import_supplier_id)))


def owner_of(session: Session, account: Account) -> Owner:
    """Return the owner of an account at this moment."""
    return Owner.NEW if session.scalar(_IS_NEW, {"id": account.id}) else Owner.OLD


_IS_NEW = text(f"""
    SELECT {IS_NEW} FROM account JOIN import_supplier AS supplier ON supplier.id = account.import_supplier_id
    WHERE account.id = :id
""")
