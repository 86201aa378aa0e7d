"""Errors about batches: their files, their states, single lines, waves, and readiness."""

from migration_payloads.errors import InvalidError, LineError, ServiceError
from migration_service.errors.base import NotFoundError, ServiceUnavailableError


class BatchNotFoundError(NotFoundError):
    """The batch does not exist, or belongs to another organisation."""

    code = "batch_not_found"
    default_detail = "The batch does not exist, or belongs to another organisation."
    detail_with_found = "Batch {found} does not exist, or belongs to another organisation."
    remedy = "Check the id of the batch."


class OldFiguresNotFoundError(NotFoundError):
    """No figures of the old system were sent for the import supplier."""

    code = "old_figures_not_found"
    default_detail = "The import supplier has no figures of its old system."
    remedy = "Send a file with the figures first."


class TooManyUploadsError(ServiceError):
    """The organisation has reached its limit of simultaneous uploads."""

    code = "too_many_uploads"
    default_detail = (
        "Your organisation is sending too many files at the same time. Wait until one of them has arrived."
    )
    remedy = "Wait until another upload has ended, then send the same request again."
    retry_seconds = (10, 20)


class BatchQuotaError(ServiceError):
    """The base of the quotas of an organisation."""

    retry_seconds = (60, 120)


class TooManyOpenBatchesError(BatchQuotaError):
    """The organisation has reached its limit of batches that have not ended."""

    code = "too_many_open_batches"
    default_detail = "Your organisation has too many batches that have not ended."
    remedy = "Wait until a batch has ended, or cancel one, then send the same request again."


class BatchStorageQuotaError(BatchQuotaError):
    """The lines of the organisation's batches have reached their storage limit."""

    code = "batch_storage_quota_reached"
    default_detail = "The lines of your organisation's batches take too many bytes."
    remedy = "Ask the operator for a larger quota, or wait until the lines of older batches are removed."


class UploadStorageFullError(ServiceUnavailableError):
    """The disk for incoming uploads is full. Nothing was changed."""

    code = "upload_storage_full"
    default_detail = "There is no room for the file right now. Nothing was changed. Try again later."
    remedy = "Send the same request again after the number of seconds in `Retry-After`."
    retry_seconds = (30, 60)


class BatchStateError(InvalidError):
    """The batch is not in a state that allows this."""

    code = "batch_state_conflict"
    default_detail = "The state of the batch does not allow this."
    remedy = "Check the state of the batch first."


class BatchesNotComparableError(InvalidError):
    """The two batches are of different import suppliers, or of different kinds."""

    code = "batches_not_comparable"
    default_detail = "The batches are of different import suppliers."
    remedy = "Compare two batches of one import supplier and one kind."


class LineFailedUnexpectedlyError(LineError):
    """The line failed because of a fault in the service. The other lines of the batch are not affected."""

    code = "line_failed_unexpectedly"
    default_detail = "An unexpected error occurred. The line was not imported."
    remedy = "Tell the operator the id of the batch and the number of the line."


class LineKindMismatchError(LineError):
    """The line is of another kind than the batch."""

    code = "line_kind_mismatch"
    default_detail = "The line is of another kind than the batch."
    remedy = "Send the line in a batch of the right kind."

    def __init__(self, member: str, found: str, expected: str) -> None:
        detail = f"A line with {member} is of kind {found}, but the batch is of kind {expected}."
        super().__init__(detail, attr=member)


class DryRunInLineError(LineError):
    """The line contains `dry_run`, which is only possible for a whole batch."""

    code = "dry_run_in_line"
    default_detail = "Only a whole batch can be a dry run: leave dry_run out, and start it in mode dry-run."
    remedy = "Leave `dry_run` out of the line, and choose the mode of the batch."
    default_attr = "dry_run"


class AlreadyAddedError(LineError):
    """The account already had this item, or the line has it twice. The other items were added."""

    severity = "warning"
    code = "already_added"
    default_detail = "This item already exists on the account."
    remedy = "Nothing."

    @classmethod
    def within_line(cls) -> "AlreadyAddedError":
        """Return the error for an item that is the same as an earlier one of its line."""
        return cls("An earlier item of this line is the same. It was added once.")


class AccountBusyError(LineError):
    """The line is deferred, because the account was locked for some seconds."""

    severity = "warning"
    code = "account_busy"
    default_detail = "The account is being changed by another operation. The line is processed later."
    remedy = "Nothing: the line is processed again."
    default_attr = "external_account_number"


class AddedDataDoesNotFitError(LineError):
    """The account was not replaced, because something that was added to it does not fit the new version."""

    code = "added_data_does_not_fit"
    default_detail = "The account was not replaced, because the new version does not fit what was added."
    remedy = (
        "Undo the batch that added it, and send it again after the account was replaced. Or correct the new "
        "version."
    )


class NewerVersionRefusedError(LineError):
    """A newer version of the account was sent, but refused. The staged or created version is older.

    It is also among the errors of a single request.
    """

    code = "newer_version_refused"
    default_detail = "A newer version of the account was sent, but refused."
    remedy = (
        "Correct the newer version and send it again. An older one is created only if the request names the "
        "account, or has `include_older_versions`."
    )

    @classmethod
    def at(cls, moment: str) -> "NewerVersionRefusedError":
        """Return the error with the time when the newer version was sent."""
        return cls(f"A newer version of the account was sent at {moment}, but refused.")


class PayloadDiffersError(LineError):
    """The account exists, but was created from different data. Nothing was changed.

    It is also among the errors of a single request.
    """

    code = "payload_differs"
    severity = "warning"
    default_detail = "The account was created from another payload."
    remedy = (
        "Check the paths. Send later events as added data. For any other difference replace the account, as "
        "is possible until go-live: send it in a batch with `replace=differing`."
    )


class WavePlanNotFoundError(NotFoundError):
    """The wave plan does not exist, or belongs to another organisation."""

    code = "wave_plan_not_found"
    default_detail = "The wave plan does not exist, or belongs to another organisation."
    detail_with_found = "Wave plan {found} does not exist, or belongs to another organisation."
    remedy = "Check the id of the plan."


class WaveNotFoundError(NotFoundError):
    """The plan has no wave of this number."""

    code = "wave_not_found"
    default_detail = "The plan has no wave of this number."
    detail_with_found = "The plan has no wave {found}."
    remedy = "Check the number of the wave. The first one is 1."


class WavePlanOpenError(InvalidError):
    """The import supplier has a plan whose waves have not all ended."""

    code = "wave_plan_not_finished"
    default_detail = "The import supplier has a plan whose waves have not all ended."
    remedy = "Finish that plan, or stop its waves, before you create another one."


class WaveStateError(InvalidError):
    """The wave is not in a state that allows this."""

    code = "wave_state_conflict"
    default_detail = "The state of the wave does not allow this."
    remedy = "Check the state of the wave, and of the waves before it, first."


class WaveWindowClosedError(InvalidError):
    """The window of the wave is closed."""

    code = "wave_window_closed"
    default_detail = "The window of the wave is closed."
    remedy = "Wait for the next window, in which the wave starts automatically."


class ReadinessNotAcceptableError(InvalidError):
    """The check is not a warning that could be accepted."""

    code = "readiness_not_acceptable"
    default_detail = "The check has passed, has failed, or its warning was accepted already."
    remedy = "Check again what it says. What has failed has to be corrected."
