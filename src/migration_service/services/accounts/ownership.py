"""The owner of a created account: the old system until its go-live, and the new platform from then on.

An account goes live with its supplier, or earlier with its wave or by itself, and the earliest moment counts.
Whoever has to know the owner asks here, so that there is always exactly one.
"""

from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service.db.sql import SqlConnection
from migration_service.models import Account, ImportSupplier
from migration_service.services.imports.status import ImportsPage, page_of_imports, read_page
from migration_service.services.setup.suppliers import IS_NEW, SUPPLIER_IS_LIVE, KnownSupplier
from migration_service.states import Owner


def has_gone_live(session: Session, import_supplier_id: int) -> bool:
    """Return whether a supplier has gone live, and all of its accounts with it."""
    live = select(ImportSupplier.live_at <= func.clock_timestamp())
    return bool(session.scalar(live.where(ImportSupplier.id == import_supplier_id)))


def read_owner(session: Session, account: Account) -> dict[str, Any]:
    """Return the owner of an account, and when it goes live by whose decision, by the names of answers."""
    return dict(session.execute(_READ, {"id": account.id}).mappings().one())


def read_imports_of_owner(
    connection: SqlConnection, supplier: KnownSupplier, owner: Owner, *, after: str, limit: int
) -> ImportsPage:
    """Return the supplier's created accounts of this owner with numbers greater than `after`, in order."""
    [row] = connection.execute(_IS_LIVE, {"id": supplier.id})
    return read_page(connection, _PAGES[owner, row.is_live], supplier, after=after, limit=limit)


_IS_LIVE = f"SELECT {SUPPLIER_IS_LIVE} AS is_live FROM import_supplier AS supplier WHERE id = %(id)s"
# By the owner, and by whether the supplier has gone live. `process` is the name that pages of imports use.
_PAGES = {
    key: page_of_imports(f"""
        SELECT external_account_number, service_account_number, created_at AS account_created_at
        FROM account AS process
        WHERE import_supplier_id = %(import_supplier_id)s AND external_account_number > %(after)s
          AND {condition}""")
    for key, condition in {
        (Owner.NEW, True): "TRUE",
        (Owner.OLD, True): "FALSE",
        (Owner.NEW, False): "live_at <= clock_timestamp()",
        (Owner.OLD, False): "(live_at <= clock_timestamp()) IS NOT TRUE",
    }.items()
}

_READ = text(f"""
    SELECT CASE WHEN {IS_NEW} THEN '{Owner.NEW}' ELSE '{Owner.OLD}' END AS owner,
           least(account.live_at, supplier.live_at) AS live_at,
           CASE WHEN account.live_at <= supplier.live_at OR supplier.live_at IS NULL
                THEN account.live_by ELSE supplier.live_by END AS live_by
    FROM account JOIN import_supplier AS supplier ON supplier.id = account.import_supplier_id
    WHERE account.id = :id
""")
