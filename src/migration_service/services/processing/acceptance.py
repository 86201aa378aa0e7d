"""Accepting a process request (section 4.3): checking it and starting its attempt.

Each step is one prepared statement, so a request costs little more than the creation of its account.
"""

from dataclasses import dataclass

from migration_service.db.statements import Statements
from migration_service.errors import (
    AccountNotStagedError,
    ErrorItem,
    ImportSupplierNotFoundInBodyError,
    OperationsTeamNotFoundError,
)
from migration_service.services.access.callers import Caller
from migration_service.services.imports.newer_versions import say_refused
from migration_service.services.imports.states import refusal, require_ongoing
from migration_service.services.setup.names import is_name
from migration_service.services.setup.suppliers import MAX_CODE, require_supplier_allowed
from migration_service.states import ImportState


@dataclass(frozen=True, slots=True)
class ProcessOrder:
    """The body of the process endpoint."""

    external_account_number: str
    import_supplier_code: str
    operations_team_name: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class AttemptRequest:
    """A process order that has been checked and can start."""

    account_import_process_id: int
    operations_team_id: int
    dry_run: bool
    #: The concurrency limit in force, or None if it is off.
    limit: int | None


_CHECK = """
    SELECT supplier.id AS supplier_id, supplier.status, process.id, process.state,
           process.service_account_number, process.refused_at, process.refused_errors, team.id AS team_id,
           (SELECT concurrency_limit FROM service_limit) AS concurrency_limit,
           EXISTS (SELECT FROM skip_mark WHERE skip_mark.import_supplier_id = supplier.id
                   AND skip_mark.external_account_number = %(external_account_number)s) AS is_marked
    FROM import_supplier supplier
    LEFT JOIN account_import_process process ON process.import_supplier_id = supplier.id
         AND process.external_account_number = %(external_account_number)s
    LEFT JOIN LATERAL (
        SELECT id FROM operations_team
        WHERE name = %(operations_team_name)s
          AND (organisation_id = supplier.organisation_id OR organisation_id IS NULL)
        ORDER BY organisation_id NULLS LAST LIMIT 1) AS team ON true
    WHERE supplier.organisation_id = %(organisation_id)s AND supplier.code = %(import_supplier_code)s
"""


def check_request(statements: Statements, caller: Caller, order: ProcessOrder) -> AttemptRequest:
    """Run all checks that are possible before a slot is acquired.

    Raise an InvalidError with the reason if the account cannot be processed now.
    """
    if not is_name(order.import_supplier_code, MAX_CODE):
        raise _unknown_supplier(order.import_supplier_code)
    rows = statements.execute(
        _CHECK,
        {
            "external_account_number": order.external_account_number,
            "operations_team_name": order.operations_team_name,
            "organisation_id": caller.organisation_id,
            "import_supplier_code": order.import_supplier_code,
        },
    )
    if not rows:
        raise _unknown_supplier(order.import_supplier_code)
    (found,) = rows
    require_supplier_allowed(found.supplier_id, order.import_supplier_code)
    number = order.external_account_number
    # The account is checked before its supplier, so that the answer for an imported one has its numbers
    # (4.3).
    state = ImportState.SKIPPED if found.is_marked else ImportState.PENDING
    if found.state not in (None, ImportState.PENDING):
        state = ImportState(found.state)
    if error := refusal(state, number, found.service_account_number):
        if found.refused_at and state is ImportState.IMPORTED:
            error.errors += say_refused(found.refused_at, found.refused_errors or ())
        raise error
    require_ongoing(found.status)
    if found.id is None:
        raise AccountNotStagedError(found=number)
    if found.team_id is None:
        raise OperationsTeamNotFoundError(found=order.operations_team_name)
    return AttemptRequest(found.id, found.team_id, order.dry_run, found.concurrency_limit)


def _unknown_supplier(code: str) -> ImportSupplierNotFoundInBodyError:
    detail = ImportSupplierNotFoundInBodyError(found=code).detail
    # Only in this body is the field called import_supplier_code.
    item = ErrorItem(ImportSupplierNotFoundInBodyError.code, detail, "import_supplier_code")
    return ImportSupplierNotFoundInBodyError(detail, errors=[item])
