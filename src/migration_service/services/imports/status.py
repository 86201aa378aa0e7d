"""The progress of imports: the status of one account, and the lists (sections 4.4 to 4.7)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, defer

from migration_payloads.moments import sql_moment
from migration_service.db.base import literals
from migration_service.db.sql import SqlConnection
from migration_service.errors import AccountNotFoundError, ImportSupplierNotFoundError
from migration_service.models import AccountImportProcess
from migration_service.services.setup.names import is_name
from migration_service.services.setup.suppliers import MAX_CODE, KnownSupplier, require_supplier_allowed
from migration_service.states import ImportState, Outcome


class ReportedStatus(StrEnum):
    """The status that the status endpoint returns (section 3.2)."""

    #: No account exists. An earlier attempt failed, or none was made.
    UNKNOWN = "UNKNOWN"
    #: A migration process is creating the account now.
    IN_PROGRESS = "IN_PROGRESS"
    #: The account has been created.
    COMPLETED = "COMPLETED"


#: The reported status of a process in each state (section 3.2).
REPORTED_STATUS = {
    ImportState.PENDING: ReportedStatus.UNKNOWN,
    ImportState.SKIPPED: ReportedStatus.UNKNOWN,
    ImportState.IN_PROGRESS: ReportedStatus.IN_PROGRESS,
    ImportState.IMPORTED: ReportedStatus.COMPLETED,
}


def find_process(
    session: Session, import_supplier_id: int, external_account_number: str
) -> AccountImportProcess | None:
    """Return the process of an account without its payload, or None if the account was not staged."""
    return session.execute(
        select(AccountImportProcess)
        .where(
            AccountImportProcess.import_supplier_id == import_supplier_id,
            AccountImportProcess.external_account_number == external_account_number,
        )
        .options(defer(AccountImportProcess.payload, raiseload=True))
    ).scalar_one_or_none()


class ListKind(StrEnum):
    """The lists of account imports."""

    ALL = "all"
    PENDING = "pending"
    IMPORTED = "imported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ImportsPage:
    """Consecutive entries of a list."""

    #: The entries as JSON objects, separated by commas.
    json: str
    #: The external account number of the last one, if other entries follow it.
    cursor: str | None


_FIND_STATUS = """
    SELECT supplier.id AS supplier_id, process.state, process.service_account_number
    FROM import_supplier supplier
    LEFT JOIN account_import_process process ON process.import_supplier_id = supplier.id
         AND process.external_account_number = %(external_account_number)s
    WHERE supplier.organisation_id = %(organisation_id)s AND supplier.code = %(import_supplier_code)s
"""

# PostgreSQL writes the JSON, so a million entries are a few hundred values in Python. Text and times have the
# same form as in `migration_payloads.moments`. One entry more than the page has tells that others follow it.
_READ_PAGE = """
    SELECT string_agg({json}, ',') FILTER (WHERE place <= %(limit)s) AS json,
           CASE WHEN count(*) > %(limit)s
                THEN max(external_account_number) FILTER (WHERE place <= %(limit)s) END AS cursor
    FROM (SELECT found.*, row_number() OVER (ORDER BY external_account_number) AS place
          FROM ({found} ORDER BY process.external_account_number LIMIT %(limit)s + 1) AS found) AS page
"""
_IMPORT_JSON = f"""
    '{{"external_account_number":' || to_json(external_account_number)
    || ',"service_account_number":' || coalesce(to_json(service_account_number)::text, 'null')
    || ',"account_created_at":' || coalesce('"' || {sql_moment("account_created_at")} || '"', 'null')
    || '}}'"""
_FIND_IMPORTS = """
    SELECT external_account_number, service_account_number, account_created_at
    FROM account_import_process AS process
    WHERE import_supplier_id = %(import_supplier_id)s AND external_account_number > %(after)s"""
_FAILED_JSON = f"""
    '{{"external_account_number":' || to_json(external_account_number)
    || ',"attempt_id":' || to_json(attempt_id)
    || ',"dry_run":' || to_json(dry_run)
    || ',"outcome":' || to_json(outcome)
    || ',"code":' || coalesce(to_json(error_code)::text, '"no_worker_available"')
    || ',"finished_at":"' || {sql_moment("finished_at")} || '"}}'"""
# The newest attempt of each account that is neither created nor being created, of those of which any failed.
# Ids are chronological. Without OFFSET, the planner might look among the newest attempts of all accounts.
_FIND_FAILED = f"""
    SELECT process.external_account_number, newest.*
    FROM account_import_process AS process
    CROSS JOIN LATERAL (
        SELECT id AS attempt_id, dry_run, outcome, error_code, finished_at
        FROM (SELECT * FROM attempt WHERE account_import_process_id = process.id OFFSET 0) AS own
        ORDER BY id DESC LIMIT 1) AS newest
    WHERE process.import_supplier_id = %(import_supplier_id)s
      AND process.external_account_number > %(after)s
      AND process.state = '{ImportState.PENDING}' AND process.has_failed
      AND newest.outcome IN ({literals([Outcome.FAILED, Outcome.WITHDRAWN])})"""


def page_of_imports(found: str, json: str = _IMPORT_JSON) -> str:
    """Return the statement for a page of the imports that `found` selects from a table named `process`."""
    return _READ_PAGE.replace("{json}", json).replace("{found}", found)


_PAGES = {
    ListKind.ALL: page_of_imports(_FIND_IMPORTS),
    ListKind.PENDING: page_of_imports(f"{_FIND_IMPORTS} AND state <> '{ImportState.IMPORTED}'"),
    ListKind.IMPORTED: page_of_imports(f"{_FIND_IMPORTS} AND state = '{ImportState.IMPORTED}'"),
    ListKind.FAILED: page_of_imports(_FIND_FAILED, _FAILED_JSON),
}


def get_status(
    connection: SqlConnection, organisation_id: int, import_supplier_code: str, external_account_number: str
) -> tuple[ReportedStatus, str]:
    """Return the reported status, and the service account number or an empty string (section 4.4).

    Raise ImportSupplierNotFoundError, or AccountNotFoundError if the account was never staged.
    """
    rows: list[Any] = []
    if is_name(import_supplier_code, MAX_CODE):
        names = {
            "organisation_id": organisation_id,
            "import_supplier_code": import_supplier_code,
            "external_account_number": external_account_number,
        }
        rows = connection.execute(_FIND_STATUS, names)
    if not rows:
        raise ImportSupplierNotFoundError(found=import_supplier_code)
    (found,) = rows
    require_supplier_allowed(found.supplier_id, import_supplier_code)
    if found.state is None:
        raise AccountNotFoundError
    return REPORTED_STATUS[ImportState(found.state)], found.service_account_number or ""


def read_imports(
    connection: SqlConnection, supplier: KnownSupplier, kind: ListKind, *, after: str, limit: int
) -> ImportsPage:
    """Return the supplier's imports with numbers greater than `after`, in order (4.5 to 4.7)."""
    return read_page(connection, _PAGES[kind], supplier, after=after, limit=limit)


def read_page(
    connection: SqlConnection, statement: str, supplier: KnownSupplier, *, after: str, limit: int
) -> ImportsPage:
    """Return the page of a list that a statement reads."""
    values = {"import_supplier_id": supplier.id, "after": after, "limit": limit}
    [page] = connection.execute(statement, values)
    return ImportsPage(page.json or "", page.cursor)
