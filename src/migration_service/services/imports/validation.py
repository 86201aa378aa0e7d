"""Validation of the payload of a request, by the supplier that it names (sections 4.1 and 4.2)."""

from migration_payloads.errors import AccountFailedValidationError
from migration_payloads.moments import DEFAULT_TIME_ZONE
from migration_payloads.profile import Profile
from migration_payloads.schemas.account import LoadedAccount
from migration_payloads.validation import ValidatedAccount, check_loaded
from migration_service.db.sql import SqlConnection
from migration_service.errors import ImportSupplierNotFoundInBodyError
from migration_service.services.access.callers import Caller
from migration_service.services.setup.suppliers import KnownSupplier, find_import_supplier


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
        unknown = ImportSupplierNotFoundInBodyError(found=code)
        if not account.errors:
            raise unknown
        account.errors += unknown.errors
    if supplier is None or account.errors:
        raise AccountFailedValidationError(errors=account.errors, warnings=account.warnings)
    return supplier, account
