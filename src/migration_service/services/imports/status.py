"""How far imports are: the status of one account, and the three lists (sections 4.4 to 4.7)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.db.statements import Statements
from migration_service.errors import AccountNotFoundError, ImportSupplierNotFoundError
from migration_service.services.setup.names import is_name
from migration_service.services.setup.suppliers import MAX_CODE, KnownSupplier
from migration_service.states import ImportState


class ReportedStatus(StrEnum):
    """What the status endpoint says (section 3.2)."""

    #: No account exists; an earlier attempt failed or none was made.
    UNKNOWN = "UNKNOWN"
    #: A migration process is creating the account at this moment.
    IN_PROGRESS = "IN_PROGRESS"
    #: The account has been created.
    COMPLETED = "COMPLETED"


_REPORTED = {
    ImportState.PENDING: ReportedStatus.UNKNOWN,
    ImportState.SKIPPED: ReportedStatus.UNKNOWN,
    ImportState.IN_PROGRESS: ReportedStatus.IN_PROGRESS,
    ImportState.IMPORTED: ReportedStatus.COMPLETED,
}


class ListKind(StrEnum):
    """Which account imports a list has."""

    ALL = "all"
    PENDING = "pending"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True)
class ImportsPage:
    """Some entries of a list, one after the other."""

    #: The entries as JSON objects with commas between them.
    json: str
    count: int
    #: The external account number of the last one; empty where there is none.
    last: str


_FIND_STATUS = """
    SELECT process.state, process.service_account_number
    FROM import_supplier supplier
    LEFT JOIN account_import_process process ON process.import_supplier_id = supplier.id
         AND process.external_account_number = %(external_account_number)s
    WHERE supplier.organisation_id = %(organisation_id)s AND supplier.code = %(import_supplier_code)s
"""

# PostgreSQL writes the JSON: a million entries are a few hundred values for us. Text and times are written
# as `schemas.json` writes them.
_READ_PAGE = r"""
    SELECT string_agg(
               '{"external_account_number":' || to_json(external_account_number)
               || ',"service_account_number":' || coalesce(to_json(service_account_number)::text, 'null')
               || ',"account_created_at":'
               || coalesce('"' || to_char(account_created_at AT TIME ZONE 'UTC',
                                          'YYYY-MM-DD"T"HH24\:MI\:SS.US"Z"') || '"', 'null')
               || '}', ',') AS json,
           count(*) AS entries, max(external_account_number) AS last
    FROM (SELECT external_account_number, service_account_number, account_created_at
          FROM account_import_process
          WHERE import_supplier_id = :import_supplier_id AND external_account_number > :after {kind}
          ORDER BY external_account_number LIMIT :limit) page
"""

_PAGES = {
    ListKind.ALL: text(_READ_PAGE.replace("{kind}", "")),
    ListKind.PENDING: text(_READ_PAGE.replace("{kind}", f"AND state <> '{ImportState.IMPORTED}'")),
    ListKind.IMPORTED: text(_READ_PAGE.replace("{kind}", f"AND state = '{ImportState.IMPORTED}'")),
}


def get_status(
    statements: Statements, organisation_id: int, import_supplier_code: str, external_account_number: str
) -> tuple[ReportedStatus, str]:
    """The reported status and the service account number, empty until there is one (section 4.4).

    Raises ImportSupplierNotFoundError, and AccountNotFoundError where nothing was staged for the pair.
    """
    rows: list[Any] = []
    if is_name(import_supplier_code, MAX_CODE):
        names = {
            "organisation_id": organisation_id,
            "import_supplier_code": import_supplier_code,
            "external_account_number": external_account_number,
        }
        rows = statements.execute(_FIND_STATUS, names)
    if not rows:
        raise ImportSupplierNotFoundError(found=import_supplier_code)
    (found,) = rows
    if found.state is None:
        raise AccountNotFoundError
    return _REPORTED[ImportState(found.state)], found.service_account_number or ""


def read_imports(
    session: Session, supplier: KnownSupplier, kind: ListKind, *, after: str, limit: int
) -> ImportsPage:
    """The supplier's imports behind the number `after`, in the order of their numbers (4.5 to 4.7)."""
    found = session.execute(
        _PAGES[kind], {"import_supplier_id": supplier.id, "after": after, "limit": limit}
    ).one()
    return ImportsPage(found.json or "", found.entries, found.last or "")
