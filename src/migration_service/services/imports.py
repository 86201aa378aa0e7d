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

from sqlalchemy import Text, cast, func, literal, literal_column, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Session, defer

from migration_service.errors import (
    AccountAlreadyImportedError,
    AccountImportInProgressError,
    AccountMarkedToSkipError,
    AccountNotSkippedError,
    AccountNotStagedError,
    ImportSupplierCompleteError,
    ImportSupplierPausedError,
    InvalidError,
)
from migration_service.models import AccountImportProcess, ImportState, ImportSupplier, SupplierStatus
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.services.validation import ValidatedAccount


def require_ongoing(supplier: ImportSupplier) -> None:
    """Raise ImportSupplierPausedError or ...CompleteError unless `supplier` takes accounts (section 3.1)."""
    require_ongoing_status(supplier.status)


def require_ongoing_status(status: str) -> None:
    """The same, for the status alone."""
    if status == SupplierStatus.PAUSED:
        raise ImportSupplierPausedError
    if status == SupplierStatus.COMPLETE:
        raise ImportSupplierCompleteError


def stage_account(session: Session, supplier: ImportSupplier, account: ValidatedAccount) -> bool:
    """Store a valid payload (section 4.2); true where it is the first of this account.

    The same payload again changes nothing. Raises AccountFailedValidationError with all its errors;
    ImportSupplierPausedError or ...CompleteError; and AccountAlreadyImportedError,
    AccountMarkedToSkipError or AccountImportInProgressError where the account is past staging.
    """
    account.raise_errors()
    require_ongoing(supplier)
    process = AccountImportProcess
    payload = cast(literal(account.json.decode(), Text), JSONB)
    statement = insert(process).values(
        import_supplier_id=supplier.id,
        external_account_number=account.data["external_account_number"],
        payload=payload,
        payload_sha256=account.sha256,
        rules_version=RULES_VERSION,
        profile=supplier.profile,
        warnings=[item.to_dict() for item in account.warnings] or None,
    )
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=[process.import_supplier_id, process.external_account_number],
        set_={
            "payload": new.payload,
            "payload_sha256": new.payload_sha256,
            "rules_version": new.rules_version,
            "profile": new.profile,
            "warnings": new.warnings,
            "staged_at": func.now(),
        },
        where=(process.state == ImportState.PENDING)
        & (
            (process.payload_sha256 != new.payload_sha256)
            | (process.rules_version != new.rules_version)
            | (process.profile != new.profile)
        ),
    )
    # xmax is 0 in a row that an INSERT made, and names the updating transaction otherwise.
    first = session.execute(statement.returning(literal_column("xmax") == 0)).scalar_one_or_none()
    if first is None:
        require_pending(find_process(session, supplier.id, account.data["external_account_number"]))
    return bool(first)


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


def skip_account(session: Session, supplier: ImportSupplier, external_account_number: str) -> None:
    """Take a pending account out: it is neither staged nor created until `unskip_account`."""
    _change(session, supplier, external_account_number, ImportState.PENDING, ImportState.SKIPPED)


def unskip_account(session: Session, supplier: ImportSupplier, external_account_number: str) -> None:
    """Make a skipped account pending again."""
    _change(session, supplier, external_account_number, ImportState.SKIPPED, ImportState.PENDING)


def _change(
    session: Session, supplier: ImportSupplier, number: str, old: ImportState, new: ImportState
) -> None:
    changed = session.execute(
        update(AccountImportProcess)
        .where(
            AccountImportProcess.import_supplier_id == supplier.id,
            AccountImportProcess.external_account_number == number,
            AccountImportProcess.state == old,
        )
        .values(state=new)
        .returning(AccountImportProcess.id)
    ).first()
    if changed is None:
        process = find_process(session, supplier.id, number)
        if process is None or process.state != new:
            require_pending(process)
            raise AccountNotSkippedError
