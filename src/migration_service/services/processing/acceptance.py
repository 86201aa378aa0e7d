"""Accepting a process request (section 4.3): what is checked first, and how its attempt begins.

One statement each, written once: a request that creates an account may cost little more than the account.
"""

from dataclasses import dataclass
from uuid import UUID

from migration_service.db.statements import Statements
from migration_service.errors import (
    AccountNotStagedError,
    ImportSupplierNotFoundInBodyError,
    OperationsTeamNotFoundError,
)
from migration_service.origin import current_origin
from migration_service.services.access.scopes import require_supplier_allowed
from migration_service.services.access.tokens import Caller
from migration_service.services.imports.staging import refusal, require_ongoing
from migration_service.services.setup.names import is_name
from migration_service.services.setup.suppliers import MAX_CODE
from migration_service.states import ImportState


@dataclass(frozen=True, slots=True)
class ProcessOrder:
    """The body of the process endpoint."""

    external_account_number: str
    import_supplier_code: str
    operations_team_name: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class AttemptRequest:
    """A process order that was checked and is ready to begin."""

    account_import_process_id: int
    operations_team_id: int
    dry_run: bool
    #: The concurrency limit in force; None: off.
    limit: int | None


_CHECK = """
    SELECT supplier.id AS supplier_id, supplier.status, process.id, process.state,
           process.service_account_number, team.id AS team_id,
           (SELECT concurrency_limit FROM service_limit) AS concurrency_limit
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

_BEGIN = """
    WITH begun AS (
        UPDATE account_import_process
        SET state = 'IN_PROGRESS', attempt_id = %(attempt_id)s, dispatched_at = now(), tries = 1
        WHERE id = %(account_import_process_id)s AND state = 'PENDING'
        RETURNING id
    )
    INSERT INTO attempt
        (id, account_import_process_id, operations_team_id, api_key_id, dry_run, request_id, address)
    SELECT %(attempt_id)s, id, %(operations_team_id)s, %(api_key_id)s, %(dry_run)s, %(request_id)s,
           %(address)s
    FROM begun
    RETURNING id
"""


def check_request(statements: Statements, caller: Caller, order: ProcessOrder) -> AttemptRequest:
    """Everything that can be checked before a slot is taken.

    Raises the InvalidError that says why the account cannot be processed now.
    """
    if not is_name(order.import_supplier_code, MAX_CODE):
        raise ImportSupplierNotFoundInBodyError(found=order.import_supplier_code)
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
        raise ImportSupplierNotFoundInBodyError(found=order.import_supplier_code)
    (found,) = rows
    require_supplier_allowed(found.supplier_id, order.import_supplier_code)
    require_ongoing(found.status)
    if found.id is None:
        raise AccountNotStagedError(found=order.external_account_number)
    number = order.external_account_number
    if error := refusal(ImportState(found.state), number, found.service_account_number):
        raise error
    if found.team_id is None:
        raise OperationsTeamNotFoundError(found=order.operations_team_name)
    return AttemptRequest(found.id, found.team_id, order.dry_run, found.concurrency_limit)


def begin_attempt(
    statements: Statements,
    attempt_id: UUID,
    request: AttemptRequest,
    *,
    api_key_id: int,
    request_id: str | None,
) -> bool:
    """PENDING becomes IN_PROGRESS for this attempt; false where another was faster."""
    begun = statements.execute(
        _BEGIN,
        {
            "attempt_id": attempt_id,
            "account_import_process_id": request.account_import_process_id,
            "operations_team_id": request.operations_team_id,
            "api_key_id": api_key_id,
            "dry_run": request.dry_run,
            "request_id": request_id,
            "address": current_origin().address,
        },
    )
    return bool(begun)
