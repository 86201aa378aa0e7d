"""What can go wrong, each with a stable code; the HTTP status is decided in `blueprints.errors`.

ServiceError
├── InvalidError                      the request cannot be done as it is (400)
│   ├── RequestFailedValidationError      a body or a parameter has the errors listed
│   │   ├── AccountFailedValidationError  an account payload has the errors listed
│   │   └── ParseError                    the body is not JSON
│   ├── BatchFileError                    the file of a batch cannot be read
│   │   └── BatchFileTooLargeError        it has more than a batch may have (413)
│   ├── BatchStateError                   a batch cannot be paused, resumed ... in the state it is in
│   ├── IdempotencyKeyReusedError         the same key came with another request before
│   ├── LineError                         why a line of a batch failed, where no other error says it
│   │   ├── LineTooLongError
│   │   ├── ImportSupplierMismatchError       it names another supplier than the batch
│   │   └── DuplicateLineError                its account is on an earlier line already
│   ├── ImportSupplierNotFoundInBodyError  named in a body: unknown, or another organisation's
│   ├── ImportSupplierPausedError         nothing new is taken now
│   ├── ImportSupplierCompleteError       nothing new is taken any more
│   ├── AccountAlreadyImportedError       carries the account's two numbers
│   ├── AccountMarkedToSkipError          an operator took it out
│   ├── AccountImportInProgressError      it is being created at this moment
│   ├── AccountNotStagedError             process before stage
│   ├── AccountNotFoundInBodyError        data for an account that was not imported
│   ├── TransactionOutsideOpenPeriodError its date is in no open statement period
│   ├── TransactionIdAlreadyUsedError     by another transaction of the account
│   ├── TransactionImportError            any of these, as the transactions endpoint tells it
│   ├── HistoricalStatementAlreadyExistsError  with another content
│   ├── OperationsTeamNotFoundError
│   ├── OrganisationNotFoundError         named in a command, and unknown
│   ├── ApiKeyNotFoundError               named in a command, and unknown
│   ├── NameTakenError                    there is one of this name already
│   ├── NameInvalidError                  a name that cannot be used
│   ├── PaymentVendorInvalidError         an address that no payment vendor can have
│   ├── PaymentVendorNotFoundError        the payment vendor is not set up here
│   ├── PaymentInstructionRejectedError   the payment vendor says no to the instruction
│   ├── PaymentVendorUnreachableError     the vendor cannot be asked, for a lasting reason
│   ├── AccountCreationFailedError        the worker could not create it
│   └── DryRunSucceededError              everything went well, and was rolled back
├── UnauthenticatedError              a token, or a key, that does not hold (401)
│   └── NotAuthenticatedError             no token
├── NotFoundError                     named in a path (404)
│   ├── ImportSupplierNotFoundError
│   ├── AccountNotFoundError
│   └── BatchNotFoundError
├── ConcurrencyLimitReachedError      no slot is free (429)
├── ThrottledError                    too many failed attempts to obtain a token (429)
├── PaymentVendorUnavailableError     the vendor cannot be asked right now (500: retry unchanged)
└── ServiceUnavailableError           a part that is needed is away (503)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class ErrorItem:
    """One error of a list (section 7.2): what is wrong, its stable code, and where.

    `attr` is the dot-delimited path to the value at fault, or None where no field is.
    """

    code: str
    detail: str
    attr: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """The error object of section 7.2."""
        return {"detail": self.detail, "code": self.code, "attr": self.attr}


class ServiceError(Exception):
    """An expected failure. `code` is stable; `detail` is for people and may change."""

    code: str = "error"
    default_detail: ClassVar[str] = "Something went wrong."
    #: The field of the request that an error of this class is always about, if there is one.
    default_attr: ClassVar[str | None] = None

    def __init__(self, detail: str | None = None, *, errors: Sequence[ErrorItem] = ()) -> None:
        self.detail = detail or self.default_detail
        self.errors = list(errors) or [ErrorItem(self.code, self.detail, self.default_attr)]
        super().__init__(self.detail)

    def extra_fields(self) -> dict[str, Any]:
        """Fields that the body of this error has beside detail, code and errors."""
        return {}


class InvalidError(ServiceError):
    """The request cannot be done as it is."""

    code = "invalid"


class RequestFailedValidationError(InvalidError):
    """A body or a parameter does not satisfy its rules; `errors` has every error found."""

    code = "request_failed_validation"
    default_detail = "The request has errors."


class AccountFailedValidationError(RequestFailedValidationError):
    """An account payload does not satisfy its rules; `errors` has every error found."""

    code = "account_failed_validation"
    default_detail = "The account payload has errors."


class ParseError(RequestFailedValidationError):
    """The body is not JSON that this service reads."""

    code = "parse_error"
    default_detail = "The body is not valid JSON."


class BatchFileError(InvalidError):
    """The file of a batch cannot be read to its end; nothing of it was kept."""

    code = "batch_file_unreadable"
    default_detail = "The file cannot be read."


class BatchFileTooLargeError(BatchFileError):
    """The file of a batch has more bytes, once decompressed, than a batch may have; nothing was kept."""

    code = "request_too_large"
    default_detail = "The file is larger than a batch may be. Send it in parts."


class BatchStateError(InvalidError):
    """The batch is not in a state in which this can be done."""

    code = "batch_state_conflict"
    default_detail = "This cannot be done with the batch as it is."


class IdempotencyKeyReusedError(InvalidError):
    """The Idempotency-Key was used before, for a batch of another file or with other parameters."""

    code = "idempotency_key_reused"
    default_detail = "This Idempotency-Key was used for another batch. Use a new key for each file."


class LineError(InvalidError):
    """A line of a batch failed for a reason that only batches know."""


class LineTooLongError(LineError):
    """The line is longer than the largest account payload."""

    code = "line_too_long"
    default_detail = "The line is longer than the largest payload that is read."


class ImportSupplierMismatchError(LineError):
    """The line names another import supplier than the batch."""

    code = "import_supplier_mismatch"
    default_detail = "The account names another import supplier than the batch."
    default_attr = "import_supplier"


class DuplicateLineError(LineError):
    """An earlier line of the same file has the same account; that line counts."""

    code = "duplicate_line_in_batch"
    default_detail = "The account is on an earlier line of the batch already; that line counts."
    default_attr = "external_account_number"


class ImportSupplierNotFoundInBodyError(InvalidError):
    """A body names an import supplier that is unknown, or another organisation's."""

    code = "import_supplier_not_found"
    default_detail = "There is no such import supplier."
    default_attr = "import_supplier"


class ImportSupplierPausedError(InvalidError):
    """The supplier is Paused (section 3.1): more accounts are expected later."""

    code = "import_supplier_paused"
    default_detail = "The import supplier is paused: nothing is migrated now, try again later."


class ImportSupplierCompleteError(InvalidError):
    """The supplier is Complete (section 3.1): no more accounts are expected."""

    code = "import_supplier_complete"
    default_detail = "The import supplier is complete: nothing more is migrated."


class AccountAlreadyImportedError(InvalidError):
    """An account exists for the pair; the body carries its two numbers (section 4.3)."""

    code = "account_already_imported"
    default_detail = "The account has been imported already."

    def __init__(self, external_account_number: str, service_account_number: str) -> None:
        super().__init__()
        self.external_account_number = external_account_number
        self.service_account_number = service_account_number

    def extra_fields(self) -> dict[str, Any]:
        """The two numbers that section 4.3 adds to the body."""
        return {
            "external_account_number": self.external_account_number,
            "service_account_number": self.service_account_number,
        }


class AccountMarkedToSkipError(InvalidError):
    """An operator marked the account to be skipped."""

    code = "account_marked_to_skip"
    default_detail = "The account is marked to be skipped."


class AccountImportInProgressError(InvalidError):
    """The account is being created at this moment."""

    code = "account_import_in_progress"
    default_detail = "The account is being created right now."


class AccountNotStagedError(InvalidError):
    """Nothing is staged for the pair."""

    code = "account_not_staged"
    default_detail = "The account is not staged: stage it before it is processed."


class AccountNotFoundInBodyError(InvalidError):
    """Data was sent for an account that has not been imported (not in a path: 400)."""

    code = "account_not_found"
    default_detail = "There is no imported account for this supplier and external account number."


class TransactionOutsideOpenPeriodError(InvalidError):
    """A transaction is dated outside its ledger's open statement period, and may not be moved into it."""

    code = "transaction_outside_open_period"
    default_detail = "The transaction is not within the open statement period."


class TransactionIdAlreadyUsedError(InvalidError):
    """A transaction_id is another transaction's: of another amount or type, or nothing was to be skipped."""

    code = "transaction_id_already_used"
    default_detail = "The transaction_id is used already by a transaction of the account."


class TransactionImportError(InvalidError):
    """Why no transaction of a request was added (section 4.9), with the code of the error beneath.

    `transaction_data` is the first failing transaction as it was sent; None where none is at fault.
    """

    def __init__(self, error: InvalidError, transaction_data: Any = None) -> None:
        self.code = error.code
        self.transaction_data = transaction_data
        # The first reason says more than "the request has errors"; in a list its path is part of it.
        first = error.errors[0]
        in_a_list = isinstance(error, RequestFailedValidationError) and first.attr
        self.error_detail = f"{first.attr}: {first.detail}" if in_a_list else first.detail
        super().__init__(error.detail, errors=error.errors)

    def extra_fields(self) -> dict[str, Any]:
        """The body that section 4.9 gives to a failure."""
        return {
            "status": "TRANSACTION_IMPORT_ERROR",
            "error_detail": self.error_detail,
            "transaction_data": self.transaction_data,
        }


class HistoricalStatementAlreadyExistsError(InvalidError):
    """The account has a statement of the same statement_id with another content (section 4.10)."""

    code = "historical_statement_already_exists"
    default_detail = "The account has another statement of this statement_id."


class OperationsTeamNotFoundError(InvalidError):
    """The operations team does not exist."""

    code = "operations_team_not_found"
    default_detail = "There is no operations team of this name."
    default_attr = "operations_team_name"


class OrganisationNotFoundError(InvalidError):
    """A command names an organisation that does not exist."""

    code = "organisation_not_found"
    default_detail = "There is no organisation of this name."


class ApiKeyNotFoundError(InvalidError):
    """A command names an API key that does not exist."""

    code = "api_key_not_found"
    default_detail = "There is no API key with this prefix."


class NameTakenError(InvalidError):
    """Something of this kind has the name already."""

    code = "name_taken"
    default_detail = "There is one of this name already."


class NameInvalidError(InvalidError):
    """A name that an operator gave cannot be used: too long, or with characters that do not print."""

    code = "name_invalid"
    default_detail = "The name cannot be used."


class PaymentVendorInvalidError(InvalidError):
    """An address, or the name of a variable, that a payment vendor cannot be set up with."""

    code = "payment_vendor_invalid"
    default_detail = "A payment vendor cannot be set up like this."


class PaymentVendorNotFoundError(InvalidError):
    """A body names a payment vendor that no operator has set up (section 2.8)."""

    code = "payment_vendor_not_found"
    default_detail = "There is no payment vendor of this name."
    default_attr = "vendor"


class PaymentInstructionRejectedError(InvalidError):
    """The payment vendor answered, and does not confirm the instruction (section 4.11)."""

    code = "payment_instruction_rejected"
    default_detail = "The payment vendor does not confirm this payment instruction."
    default_attr = "reference"


class PaymentVendorUnreachableError(InvalidError):
    """The vendor cannot be asked until somebody changes something (section 4.11: persistent failure).

    An unknown host name, a bad certificate, refused credentials, a redirect, an answer that makes no sense.
    """

    code = "payment_vendor_unreachable"
    default_detail = (
        "The payment vendor cannot be reached. Retrying will not help until an operator has helped."
    )
    default_attr = "vendor"


class AccountCreationFailedError(InvalidError):
    """The worker could not create the account; it is pending again.

    `code` is what the worker recorded, where that was an error of its own.
    """

    code = "account_creation_failed"
    default_detail = "The account could not be created."

    def __init__(
        self, detail: str | None = None, *, code: str | None = None, errors: Sequence[ErrorItem] = ()
    ) -> None:
        if code:
            self.code = code
        super().__init__(detail, errors=errors)


class DryRunSucceededError(InvalidError):
    """A dry run went well; everything was rolled back (section 4.3)."""

    code = "dry_run_succeeded"
    default_detail = "Account would successfully import. Rolled back due to Dry Run."


class UnauthenticatedError(ServiceError):
    """No token was given, or one that does not hold."""

    code = "authentication_failed"
    default_detail = "The token is not valid."


class NotAuthenticatedError(UnauthenticatedError):
    """No token was given."""

    code = "not_authenticated"
    default_detail = "No token was given: send one in the Authorization header."


class NotFoundError(ServiceError):
    """What a path names does not exist, or is another organisation's."""

    code = "not_found"
    default_detail = "There is nothing here."


class ImportSupplierNotFoundError(NotFoundError):
    """A path names an import supplier that is unknown, or another organisation's."""

    code = "import_supplier_not_found"
    default_detail = "There is no such import supplier."


class AccountNotFoundError(NotFoundError):
    """No account (or no import process) exists for the pair."""

    code = "account_not_found"
    default_detail = "There is no account for this supplier and external account number."


class BatchNotFoundError(NotFoundError):
    """A path names a batch that does not exist, or is another organisation's."""

    code = "batch_not_found"
    default_detail = "There is no such batch."


class ConcurrencyLimitReachedError(ServiceError):
    """Too many accounts are being processed at once (section 8)."""

    code = "concurrency_limit_reached"
    default_detail = "Too many accounts are being processed at once. Retry after other accounts finish."


class ThrottledError(ServiceError):
    """Too many failed attempts to obtain a token; `retry_after` is the time to wait in seconds."""

    code = "throttled"
    default_detail = "Too many failed attempts. Try again later."

    def __init__(self, retry_after: int = 60) -> None:
        self.retry_after = retry_after
        super().__init__(f"Too many failed attempts. Try again in {retry_after} seconds.")


class PaymentVendorUnavailableError(ServiceError):
    """The vendor cannot be asked right now (section 4.11: intermittent failure, retry unchanged).

    A time-out, a 5xx or 429, a connection refused or cut, or a vendor that is left alone for a moment
    because it has failed several times.
    """

    code = "payment_vendor_unavailable"
    default_detail = "The payment vendor does not answer right now. Send the same request again later."


class ServiceUnavailableError(ServiceError):
    """A part of the service that this request needs is away; nothing was changed."""

    code = "service_unavailable"
    default_detail = "The service cannot do this right now; nothing was changed. Try again."
