"""Validating and staging the account payload of a request (sections 3.2, 4.1 and 4.2)."""

from datetime import datetime

from migration_payloads.moments import DEFAULT_TIME_ZONE, write_moment
from migration_payloads.profile import Profile
from migration_payloads.schemas.account import LoadedAccount
from migration_payloads.validation import ValidatedAccount, check_loaded
from migration_service import errors
from migration_service.db.sql import SqlConnection
from migration_service.services.access.callers import Caller
from migration_service.services.imports import storing
from migration_service.services.imports.newer_versions import explain_refusal
from migration_service.services.imports.quota import StagedQuota
from migration_service.services.imports.states import refusal
from migration_service.services.imports.storing import StagedProcess
from migration_service.services.setup.suppliers import (
    KnownSupplier,
    find_import_supplier,
    refusal_of_supplier,
)
from migration_service.states import StagingResult, SupplierStatus


def validate_payload(
    connection: SqlConnection, caller: Caller, loaded: LoadedAccount, profile: Profile | None = None
) -> tuple[KnownSupplier, ValidatedAccount]:
    """Return the supplier that a payload names, and the validated payload.

    The supplier's profile is used unless `profile` is given. Raise AccountFailedValidationError with every
    error, or ImportSupplierNotFoundInBodyError if an unknown supplier is the only one.
    """
    code = loaded.import_supplier
    supplier = None
    if isinstance(code, str):
        supplier = find_import_supplier(connection, code, organisation_id=caller.organisation_id)
    own_profile = Profile(supplier.profile) if supplier else Profile.LENIENT
    time_zone = supplier.time_zone if supplier else DEFAULT_TIME_ZONE
    account = check_loaded(loaded, profile or own_profile, time_zone)
    if supplier is None and "import_supplier" in account.data:
        unknown = errors.ImportSupplierNotFoundInBodyError(found=code)
        if not account.errors:
            raise unknown
        account.errors += unknown.errors
    if supplier is None or account.errors:
        raise errors.AccountFailedValidationError(errors=account.errors, warnings=account.warnings)
    return supplier, account


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
    is_full = quota.is_reached(supplier.organisation_id)
    if is_full and not storing.find(connection, supplier.id, [account.number]):
        quota.require_room(supplier.organisation_id)
    if supplier.status != SupplierStatus.ONGOING:
        raise _refuse(connection, supplier, account, extracted_at)
    (staged,) = storing.stage(connection, supplier, [account], extracted_at=extracted_at)
    if error := refusal_of(staged, account.number, extracted_at):
        raise explain_refusal(connection, supplier, account, staged, error, extracted_at=extracted_at)
    return staged.result or StagingResult.UNCHANGED


def _refuse(
    connection: SqlConnection,
    supplier: KnownSupplier,
    account: ValidatedAccount,
    extracted_at: datetime | None,
) -> errors.InvalidError:
    """Return the error of staging for a supplier that is not Ongoing. An error of the account comes first."""
    found = storing.find(connection, supplier.id, [account.number]).get(account.number)
    error = refusal(found.state, account.number, found.service_account_number) if found else None
    error = error or refusal_of_supplier(supplier.status)
    if found is None:
        return error
    return explain_refusal(connection, supplier, account, found, error, extracted_at=extracted_at)


def refusal_of(
    staged: StagedProcess, external_account_number: str, extracted_at: datetime | None
) -> errors.InvalidError | None:
    """Return the reason why a payload was not stored, or None if it is staged."""
    error = refusal(staged.state, external_account_number, staged.service_account_number)
    if error or staged.result:
        return error
    if staged.refused_later:
        return errors.NewerVersionRefusedError.at(write_moment(staged.refused_later))
    if staged.extracted_at and extracted_at and staged.is_of_later_extract(extracted_at):
        return errors.NewerVersionStagedError.of(
            write_moment(staged.extracted_at), write_moment(extracted_at)
        )
    return errors.NewerVersionStagedError("Another payload was staged after the line was sent. It is kept.")
