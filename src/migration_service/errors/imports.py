"""Errors about validating, staging and creating an account (sections 4.1 to 4.3, and 8)."""

from collections.abc import Sequence
from typing import Any

from migration_payloads.errors import ErrorItem, InvalidError, ServiceError
from migration_service.errors.base import NotFoundError


class AccountAlreadyImportedError(InvalidError):
    """The account has been imported. The body has its two numbers.

    Section 4.3 adds the numbers.
    """

    code = "account_already_imported"
    default_detail = "The account has already been imported."
    remedy = (
        "Nothing, if `errors` has no other code: the body has the account's two numbers, and the account is "
        "as you sent it. `payload_differs` and `newer_version_refused` say that it is not."
    )

    def __init__(self, external_account_number: str, service_account_number: str) -> None:
        super().__init__()
        self.external_account_number = external_account_number
        self.service_account_number = service_account_number

    def extra_fields(self) -> dict[str, Any]:
        """Return the two numbers."""
        return {
            "external_account_number": self.external_account_number,
            "service_account_number": self.service_account_number,
        }


class AccountMarkedToSkipError(InvalidError):
    """An operator marked the account to be skipped."""

    code = "account_marked_to_skip"
    default_detail = "An operator marked the account to be skipped. It is neither staged nor created."
    remedy = "Leave the account out, or ask the operator to unskip it."


class AccountImportInProgressError(InvalidError):
    """The account is being created."""

    code = "account_import_in_progress"
    default_detail = "The account is being created. Wait until its status is no longer IN_PROGRESS."
    remedy = "Send the same request again after the number of seconds in `Retry-After`."


class AccountNotStagedError(InvalidError):
    """No payload is staged for the account."""

    code = "account_not_staged"
    default_detail = "The account is not staged. Stage it before you process it."
    detail_with_found = "Account {found} is not staged. Stage it before you process it."
    remedy = "Stage the account, then process it."


class NewerVersionStagedError(InvalidError):
    """A payload of a later extract is staged, or one that was sent after the file of this line."""

    code = "newer_version_staged"
    default_detail = "A payload of a later extract is staged. This one was not stored."
    remedy = (
        "Nothing, if the staged payload is newer. Otherwise send the payload with its own `extracted_at`."
    )

    @classmethod
    def of(cls, staged: str, sent: str) -> "NewerVersionStagedError":
        """Return the error with the times of both extracts."""
        detail = f"What is staged was extracted at {staged}. This payload was extracted at {sent}."
        return cls(f"{detail} It was not stored.")


class AccountErasedError(InvalidError):
    """The personal data of the account was erased. Nothing can be added to the account."""

    code = "account_erased"
    default_detail = "The personal data of the account was erased. Nothing can be added to the account."
    remedy = "Nothing: leave the account out."


class AccountCreationFailedError(InvalidError):
    """The account could not be created. It is pending again.

    `code` is the code that the worker recorded, if it recorded a different error.
    """

    code = "account_creation_failed"
    default_detail = "The account could not be created. It is pending again."
    remedy = "Read the detail, and process the account again, which may succeed."

    def __init__(
        self, detail: str | None = None, *, code: str | None = None, errors: Sequence[ErrorItem] = ()
    ) -> None:
        if code:
            self.code = code
        super().__init__(detail, errors=errors)


class AccountNotStorableError(InvalidError):
    """The database refused a value of the account. It will refuse the same payload every time."""

    code = "account_not_storable"
    default_detail = "The database refused a value of the account. Correct the account and stage it again."
    remedy = "Correct the value described in the detail, and stage the account again. Do not retry unchanged."


class DryRunSucceededError(InvalidError):
    """The dry run succeeded. Everything was rolled back.

    Section 4.3 gives the wording of the detail.
    """

    code = "dry_run_succeeded"
    default_detail = "Account would successfully import. Rolled back due to Dry Run."
    remedy = "Nothing: process the account without `dry_run` to create it."


class AttemptNotFoundError(NotFoundError):
    """A path names an attempt that does not exist, or belongs to another organisation."""

    code = "attempt_not_found"
    default_detail = "No attempt has this id."
    detail_with_found = "No attempt has the id {found}."
    remedy = "Check the id of the attempt."


class StagedQuotaReachedError(ServiceError):
    """The organisation has reached its quota of accounts that are staged but not created. None was staged."""

    code = "staged_quota_reached"
    default_detail = "Your organisation has too many accounts that are staged but not created."
    remedy = "Create accounts that are staged, or ask the operator for a larger quota."
    retry_seconds = (60, 120)


class ConcurrencyLimitReachedError(ServiceError):
    """Too many accounts are being processed at once.

    Section 8.
    """

    code = "concurrency_limit_reached"
    default_detail = "Too many accounts are being processed at once. Retry after other accounts finish."
    remedy = "Send the same request again after the number of seconds in `Retry-After`."


class NoWorkerAvailableError(ConcurrencyLimitReachedError):
    """No worker took the account in time. Nothing was changed.

    Slots are free, but every worker is busy with other work.
    """

    code = "no_worker_available"
    default_detail = "No worker was free in time, and nothing was changed. Send the same request again."
    remedy = "Send the same request again after the number of seconds in `Retry-After`."
