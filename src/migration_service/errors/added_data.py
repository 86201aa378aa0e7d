"""Errors about an account's status, and about data added to a created account (sections 4.4 to 4.11)."""

from typing import Any

from migration_payloads.errors import InvalidError, RequestFailedValidationError, ServiceError
from migration_service.errors.base import NotFoundError

_CHECK_ACCOUNT = "Check the supplier's code and the external account number. Create the account first."


class AccountNotFoundError(NotFoundError):
    """No account exists for this import supplier and external account number."""

    code = "account_not_found"
    default_detail = "No account exists for this import supplier and external account number."
    remedy = _CHECK_ACCOUNT


class AccountNotFoundInBodyError(InvalidError):
    """The account that a body names has not been imported."""

    code = "account_not_found"
    default_detail = "No imported account exists for this import supplier and external account number."
    remedy = _CHECK_ACCOUNT


class TransactionOutsideOpenPeriodError(InvalidError):
    """A transaction is dated outside its ledger's open statement period, and may not be moved into it."""

    code = "transaction_outside_open_period"
    default_detail = "The transaction is not within the open statement period."
    remedy = "Correct the date, or let the service move it: `force_add_to_current_statement=true`."


class TransactionIdAlreadyUsedError(InvalidError):
    """Another transaction of the account has this transaction_id.

    It has a different amount or type, or the request does not skip repeats.
    """

    code = "transaction_id_already_used"
    default_detail = "Another transaction of the account has this transaction_id."
    remedy = "Give the transaction a unique id, or leave it out if it is a repeat."


class TransactionImportError(InvalidError):
    """No transaction of the request was added. The code is that of the underlying error.

    `transaction_data` is the first failing transaction as it was sent, or None if none is at fault
    (section 4.9).
    """

    def __init__(self, error: InvalidError, transaction_data: Any = None) -> None:
        self.code = error.code
        self.transaction_data = transaction_data
        # The first reason is more useful than "the request has errors". Its path is prepended.
        first = error.errors[0]
        in_a_list = isinstance(error, RequestFailedValidationError) and first.attr
        self.error_detail = f"{first.attr}: {first.detail}" if in_a_list else first.detail
        super().__init__(error.detail, errors=error.errors)

    def extra_fields(self) -> dict[str, Any]:
        """Return the body that section 4.9 gives to a failure."""
        return {
            "status": "TRANSACTION_IMPORT_ERROR",
            "error_detail": self.error_detail,
            "transaction_data": self.transaction_data,
        }


class HistoricalStatementAlreadyExistsError(InvalidError):
    """The account has a statement with the same statement_id and other content."""

    code = "historical_statement_already_exists"
    default_detail = "The account has a statement with this statement_id and other content."
    remedy = "Give the statement a unique id. No statement of the request was added."


class PaymentVendorNotFoundError(InvalidError):
    """A body names a payment vendor that no operator has set up."""

    code = "payment_vendor_not_found"
    default_detail = "The payment vendor does not exist."
    detail_with_found = "Payment vendor {found} does not exist."
    remedy = "Ask the operator for the vendor's name."
    default_attr = "vendor"


class PaymentInstructionRejectedError(InvalidError):
    """The payment vendor does not confirm the instruction."""

    code = "payment_instruction_rejected"
    default_detail = "The payment vendor does not confirm this payment instruction."
    remedy = "Do not send the request again unchanged: the vendor does not accept it."
    default_attr = "reference"


class PaymentVendorUnreachableError(InvalidError):
    """The payment vendor cannot be reached until an operator changes something.

    The cause is an unknown host name, an invalid certificate, rejected credentials, a redirect, or an invalid
    response (section 4.11: persistent failure).
    """

    code = "payment_vendor_unreachable"
    default_detail = (
        "The payment vendor cannot be reached. A retry cannot succeed until an operator has corrected this."
    )
    remedy = "Do not send the request again unchanged: the operator must correct the vendor's set-up."
    default_attr = "vendor"


class PaymentVendorUnavailableError(ServiceError):
    """The payment vendor is temporarily unavailable.

    The cause is a time-out, a 5xx or 429 response, a refused or lost connection, or a pause in calls to the
    vendor after several failures (section 4.11: intermittent failure, retry unchanged).
    """

    code = "payment_vendor_unavailable"
    default_detail = "The payment vendor is temporarily unavailable. Send the same request again later."
    remedy = "Send the same request again later."
