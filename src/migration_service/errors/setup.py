"""Errors about the setup by operators: organisations, API keys, import suppliers, teams and vendors."""

from migration_payloads.errors import InvalidError
from migration_service.errors.base import NotFoundError, OperatorError

_NO_SUPPLIER = "The import supplier does not exist, or belongs to another organisation."
_NO_SUPPLIER_FOUND = "Import supplier {found} does not exist, or belongs to another organisation."
_CHECK_SUPPLIER = "Check the code, and that the token belongs to the organisation that owns the supplier."


class ImportSupplierNotFoundError(NotFoundError):
    """The import supplier does not exist, or belongs to another organisation.

    A path names it.
    """

    code = "import_supplier_not_found"
    default_detail = _NO_SUPPLIER
    detail_with_found = _NO_SUPPLIER_FOUND
    remedy = _CHECK_SUPPLIER


class ImportSupplierNotFoundInBodyError(InvalidError):
    """The import supplier does not exist, or belongs to another organisation.

    A body names it.
    """

    code = "import_supplier_not_found"
    default_detail = _NO_SUPPLIER
    detail_with_found = _NO_SUPPLIER_FOUND
    remedy = _CHECK_SUPPLIER
    default_attr = "import_supplier"


class ImportSupplierPausedError(InvalidError):
    """The import supplier is paused. More accounts are expected later.

    Section 3.1.
    """

    code = "import_supplier_paused"
    default_detail = "The import supplier is paused. No account is migrated until it is resumed."
    remedy = "Wait until the operator resumes the supplier, then send the same request again."


class ImportSupplierCompleteError(InvalidError):
    """The import supplier is complete. No more accounts are expected.

    Section 3.1.
    """

    code = "import_supplier_complete"
    default_detail = "The import supplier is complete. No more accounts are migrated."
    remedy = "Stop sending accounts for this supplier, or ask the operator to reopen it."


class OperationsTeamNotFoundError(InvalidError):
    """The operations team does not exist."""

    code = "operations_team_not_found"
    default_detail = "The operations team does not exist."
    detail_with_found = "Operations team {found} does not exist."
    remedy = "Ask the operator for the name of the team."
    default_attr = "operations_team_name"


class OrganisationNotFoundError(OperatorError):
    """A command names an organisation that does not exist."""

    code = "organisation_not_found"
    default_detail = "The organisation does not exist."
    detail_with_found = "Organisation {found} does not exist."
    remedy = "Check the name with `migration-service organisations list`."


class ApiKeyNotFoundError(OperatorError):
    """A command names an API key that does not exist."""

    code = "api_key_not_found"
    default_detail = "No API key has this prefix."
    detail_with_found = "No API key has the prefix {found}."
    remedy = "Check the prefix with `migration-service api-keys list`."


class ApiKeyEndedError(OperatorError):
    """The API key was revoked, or has expired."""

    code = "api_key_ended"
    default_detail = "The API key was revoked, or has expired."
    detail_with_found = "The API key {found} was revoked, or has expired."
    remedy = "Issue a new key with `migration-service api-keys issue`."


class NameTakenError(OperatorError):
    """The name is already used."""

    code = "name_taken"
    default_detail = "The name is already used."
    remedy = "Choose another name, or use the existing one."


class InUseError(OperatorError):
    """What is to be renamed or removed is no longer empty, or still accepts accounts."""

    code = "in_use"
    default_detail = "It is in use."
    remedy = "Leave it as it is. Only what nothing refers to can be renamed or removed."


class NameInvalidError(OperatorError):
    """The name that an operator gave cannot be used: it is too long, or has unprintable characters."""

    code = "name_invalid"
    default_detail = "The name cannot be used."
    remedy = "Choose another name."


class PaymentVendorInvalidError(OperatorError):
    """A payment vendor cannot be set up with this address, or with this variable name."""

    code = "payment_vendor_invalid"
    default_detail = "A payment vendor cannot be set up with these values."
    remedy = "Correct the address, or the name of the variable, that the detail names."
