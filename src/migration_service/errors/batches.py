"""Errors about batches: their files, their states, and single lines."""

from migration_service.errors.base import InvalidError, NotFoundError


class BatchNotFoundError(NotFoundError):
    """The batch does not exist, or belongs to another organisation."""

    code = "batch_not_found"
    default_detail = "The batch does not exist, or belongs to another organisation."
    detail_with_found = "Batch {found} does not exist, or belongs to another organisation."
    remedy = "Check the id of the batch."


class BatchFileError(InvalidError):
    """The file of a batch cannot be read to its end. No line of it was stored."""

    code = "batch_file_unreadable"
    default_detail = "The file cannot be read."
    remedy = "Correct the file, and send the whole file again."


class BatchFileTooLargeError(BatchFileError):
    """The body, or the decompressed file of a batch, is larger than the service accepts."""

    code = "request_too_large"
    default_detail = "The decompressed file is larger than a batch may be. Split it into several batches."
    remedy = "Send less at once."


class BatchStateError(InvalidError):
    """The batch is not in a state that allows this."""

    code = "batch_state_conflict"
    default_detail = "The state of the batch does not allow this."
    remedy = "Check the state of the batch first."


class LineError(InvalidError):
    """A line of a batch failed for a reason that only batches have."""


class LineTooLongError(LineError):
    """The line is longer than the largest account payload."""

    code = "line_too_long"
    default_detail = "The line is longer than the largest account payload that is accepted."
    remedy = "Shorten the payload."


class ImportSupplierMismatchError(LineError):
    """The line names another import supplier than the batch."""

    code = "import_supplier_mismatch"
    default_detail = "The account names another import supplier than the batch."
    detail_with_found = "The account names import supplier {found}, but the batch is for {expected}."
    remedy = "Send the line in a batch for its own supplier."
    default_attr = "import_supplier"


class DuplicateLineError(LineError):
    """An earlier line of the same file has the same account. Only that line is used."""

    code = "duplicate_line_in_batch"
    default_detail = "An earlier line of the batch has the same account. Only that line is used."
    remedy = "Nothing, if the lines are the same: the first one is used."
    default_attr = "external_account_number"
