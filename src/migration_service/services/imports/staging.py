"""Account import processes: staging, and the changes of their state (sections 3.2 and 4.2).

    (none)      -- stage_account -->  PENDING
    PENDING     -- stage_account -->  PENDING      the payload is replaced
    PENDING     -- begin_attempt -->  IN_PROGRESS
    IN_PROGRESS -- run_attempt   -->  IMPORTED     together with the account, in one transaction
    IN_PROGRESS -- fail_attempt  -->  PENDING      also after a dry run
    IN_PROGRESS -- withdraw_attempt --> PENDING    no worker took it in time
    PENDING     -- skip_account  -->  SKIPPED
    SKIPPED     -- unskip_account --> PENDING

Staging and the operators' changes are here; attempts are in `services.attempts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.types.json import Jsonb
from sqlalchemy import select, update
from sqlalchemy.orm import Session, defer

from migration_service.db.statements import Statements
from migration_service.errors import (
    AccountAlreadyImportedError,
    AccountImportInProgressError,
    AccountMarkedToSkipError,
    AccountNotStagedError,
    ImportSupplierCompleteError,
    ImportSupplierPausedError,
    InvalidError,
)
from migration_service.models import AccountImportProcess, ImportSupplier
from migration_service.origin import current_origin
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.services.access.audit import AuditAction, record
from migration_service.services.imports.validation import ValidatedAccount
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import ImportState, SupplierStatus


def require_ongoing(status: str) -> None:
    """Raise ImportSupplierPausedError or ImportSupplierCompleteError unless accounts are accepted (3.1)."""
    if status == SupplierStatus.PAUSED:
        raise ImportSupplierPausedError
    if status == SupplierStatus.COMPLETE:
        raise ImportSupplierCompleteError


@dataclass(frozen=True, slots=True)
class StagedProcess:
    """Where the process of an account is after staging; only in state PENDING was anything stored."""

    id: int
    state: ImportState
    #: It is the first staging of this account.
    first: bool = False
    service_account_number: str | None = None


# In binary form (%b): in an array as text the driver would escape every quotation mark of the payloads, which
# takes twenty times as long. In the order of their numbers, so that two transactions with the same accounts
# wait for each other instead of deadlocking. ON CONFLICT locks the row also where the WHERE
# says that nothing changes. xmax is 0 in a row that an INSERT made.
_STAGE = """
    INSERT INTO account_import_process AS process
        (import_supplier_id, external_account_number, payload, payload_sha256, rules_version, profile,
         warnings, staged_by_api_key_id, staged_request_id, staged_address)
    SELECT %(import_supplier_id)s::bigint, number, payload, sha256, %(rules_version)s, %(profile)s,
           nullif(warnings, '[]'), %(api_key_id)s::bigint, %(request_id)s, %(address)s
    FROM unnest(%(numbers)s::text[], %(payloads)b::jsonb[], %(hashes)b::bytea[], %(warnings)b::jsonb[])
         AS sent (number, payload, sha256, warnings)
    ORDER BY number
    ON CONFLICT (import_supplier_id, external_account_number) DO UPDATE
    SET payload = excluded.payload, payload_sha256 = excluded.payload_sha256,
        rules_version = excluded.rules_version, profile = excluded.profile,
        warnings = excluded.warnings, staged_at = now(),
        staged_by_api_key_id = excluded.staged_by_api_key_id,
        staged_request_id = excluded.staged_request_id, staged_address = excluded.staged_address
    WHERE process.state = 'PENDING'
      AND (process.payload_sha256 <> excluded.payload_sha256
           OR process.rules_version <> excluded.rules_version OR process.profile <> excluded.profile)
    RETURNING id, external_account_number, xmax = 0 AS first
"""

_FIND = """
    SELECT external_account_number, id, state, service_account_number
    FROM account_import_process
    WHERE import_supplier_id = %(import_supplier_id)s AND external_account_number = ANY(%(numbers)s)
"""


def stage_accounts(
    statements: Statements,
    supplier: KnownSupplier,
    accounts: Sequence[ValidatedAccount],
    *,
    profile: str | None = None,
) -> list[StagedProcess]:
    """Store valid payloads of different accounts, and lock their processes; the results in their order.

    The same payload again changes nothing, and neither does one of an account that is past staging: its
    state says so. `profile` is the one that the payloads passed, by default the supplier's own.
    """
    numbers = [account.data["external_account_number"] for account in accounts]
    rows = statements.execute(
        _STAGE,
        {
            "import_supplier_id": supplier.id,
            "rules_version": RULES_VERSION,
            "profile": profile or supplier.profile,
            "numbers": numbers,
            "payloads": [Jsonb(account.json, dumps=bytes) for account in accounts],
            "hashes": [account.sha256 for account in accounts],
            **current_origin().trace(),
            "warnings": [Jsonb([item.to_dict() for item in account.warnings]) for account in accounts],
        },
    )
    found = {
        row.external_account_number: StagedProcess(row.id, ImportState.PENDING, row.first) for row in rows
    }
    if unchanged := [number for number in numbers if number not in found]:
        for row in statements.execute(_FIND, {"import_supplier_id": supplier.id, "numbers": unchanged}):
            state = ImportState(row.state)
            found[row.external_account_number] = StagedProcess(
                row.id, state, False, row.service_account_number
            )
    return [found[number] for number in numbers]


def stage_account(statements: Statements, supplier: KnownSupplier, account: ValidatedAccount) -> bool:
    """Store a valid payload (section 4.2); true where it is the first of this account.

    The same payload again changes nothing. Raises AccountFailedValidationError with all its errors;
    ImportSupplierPausedError or ...CompleteError; and AccountAlreadyImportedError,
    AccountMarkedToSkipError or AccountImportInProgressError where the account is past staging.
    """
    account.raise_errors()
    require_ongoing(supplier.status)
    (staged,) = stage_accounts(statements, supplier, [account])
    if error := refusal(staged.state, account.data["external_account_number"], staged.service_account_number):
        raise error
    return staged.first


def refusal(
    state: ImportState, external_account_number: str, service_account_number: str | None
) -> InvalidError | None:
    """Why an account in `state` can neither be staged nor created; None where it is PENDING and can."""
    match state:
        case ImportState.IMPORTED:
            return AccountAlreadyImportedError(external_account_number, service_account_number or "")
        case ImportState.SKIPPED:
            return AccountMarkedToSkipError()
        case ImportState.IN_PROGRESS:
            return AccountImportInProgressError()
        case ImportState.PENDING:
            return None


def find_process(
    session: Session, import_supplier_id: int, external_account_number: str
) -> AccountImportProcess | None:
    """The process of the pair, without its payload; None where nothing was staged."""
    return session.execute(
        select(AccountImportProcess)
        .where(
            AccountImportProcess.import_supplier_id == import_supplier_id,
            AccountImportProcess.external_account_number == external_account_number,
        )
        .options(defer(AccountImportProcess.payload, raiseload=True))
    ).scalar_one_or_none()


def require_pending(process: AccountImportProcess | None) -> AccountImportProcess:
    """The process where it is PENDING. Raises the error that says why it is not."""
    if process is None:
        raise AccountNotStagedError
    if error := refusal(
        ImportState(process.state), process.external_account_number, process.service_account_number
    ):
        raise error
    return process


def skip_account(session: Session, import_supplier_id: int, external_account_number: str) -> None:
    """Take a pending account out: it is neither staged nor created until `unskip_account`."""
    _change(session, import_supplier_id, external_account_number, ImportState.PENDING, ImportState.SKIPPED)


def unskip_account(session: Session, import_supplier_id: int, external_account_number: str) -> None:
    """Make a skipped account pending again."""
    _change(session, import_supplier_id, external_account_number, ImportState.SKIPPED, ImportState.PENDING)


def _change(
    session: Session, import_supplier_id: int, number: str, old: ImportState, new: ImportState
) -> None:
    changed = session.execute(
        update(AccountImportProcess)
        .where(
            AccountImportProcess.import_supplier_id == import_supplier_id,
            AccountImportProcess.external_account_number == number,
            AccountImportProcess.state == old,
        )
        .values(state=new)
        .returning(AccountImportProcess.id)
    ).first()
    if changed is not None:
        owner = select(ImportSupplier.organisation_id).where(ImportSupplier.id == import_supplier_id)
        skipped = new is ImportState.SKIPPED
        record(
            session,
            AuditAction.ACCOUNT_SKIPPED if skipped else AuditAction.ACCOUNT_UNSKIPPED,
            "account",
            changed.id,
            organisation_id=session.scalar(owner),
        )
    else:
        process = find_process(session, import_supplier_id, number)
        if process is None or process.state != new:
            require_pending(process)
