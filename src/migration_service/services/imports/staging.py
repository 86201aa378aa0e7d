"""Staging an account payload (sections 3.2 and 4.2)."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session, defer

from migration_payloads.moments import write_moment
from migration_payloads.validation import ValidatedAccount
from migration_service.db.sql import SqlConnection
from migration_service.errors import (
    InvalidError,
    NewerVersionStagedError,
)
from migration_service.models import AccountImportProcess
from migration_service.services.imports import storing
from migration_service.services.imports.newer_versions import explain_refusal
from migration_service.services.imports.quota import StagedQuota
from migration_service.services.imports.states import refusal
from migration_service.services.imports.storing import StagedProcess
from migration_service.services.setup.suppliers import KnownSupplier, refusal_of_supplier
from migration_service.states import StagingResult, SupplierStatus


def stage_account(
    connection: SqlConnection,
    supplier: KnownSupplier,
    account: ValidatedAccount,
    quota: StagedQuota,
    *,
    extracted_at: datetime | None = None,
) -> StagingResult:
    """Store a valid payload (section 4.2). Return the effect.

    The same payload again changes nothing. If the payload is refused in favour of another one, the account is
    marked. Raise ImportSupplierPausedError, ImportSupplierCompleteError, or AccountAlreadyImportedError,
    AccountMarkedToSkipError or AccountImportInProgressError if the account can no longer be staged, and
    NewerVersionStagedError if the staged payload is from a later extract. Raise StagedQuotaReachedError for a
    new account beyond `quota`.
    """
    if quota.is_reached(supplier.organisation_id):
        _require_staged_before(connection, supplier, account, quota)
    if supplier.status != SupplierStatus.ONGOING:
        raise _refuse(connection, supplier, account, extracted_at)
    (staged,) = storing.stage(connection, supplier, [account], extracted_at=extracted_at)
    if error := refusal_of(staged, account.number, extracted_at):
        raise explain_refusal(connection, supplier, account, staged, error, extracted_at=extracted_at)
    return staged.result or StagingResult.UNCHANGED


def _require_staged_before(
    connection: SqlConnection, supplier: KnownSupplier, account: ValidatedAccount, quota: StagedQuota
) -> None:
    if not storing.find(connection, supplier.id, [account.number]):
        quota.require_room(supplier.organisation_id)


def _refuse(
    connection: SqlConnection,
    supplier: KnownSupplier,
    account: ValidatedAccount,
    extracted_at: datetime | None,
) -> InvalidError:
    """Return the error of staging for a supplier that is not Ongoing. An error of the account comes first."""
    found = storing.find(connection, supplier.id, [account.number]).get(account.number)
    error = refusal(found.state, account.number, found.service_account_number) if found else None
    error = error or refusal_of_supplier(supplier.status)
    if found is None:
        return error
    return explain_refusal(connection, supplier, account, found, error, extracted_at=extracted_at)


def refusal_of(
    staged: StagedProcess, external_account_number: str, extracted_at: datetime | None
) -> InvalidError | None:
    """Return the reason why a payload was not stored, or None if it is staged."""
    error = refusal(staged.state, external_account_number, staged.service_account_number)
    if error or staged.result or not (staged.extracted_at and extracted_at):
        return error
    return NewerVersionStagedError.of(write_moment(staged.extracted_at), write_moment(extracted_at))


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
