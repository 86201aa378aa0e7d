"""The base of every error, and the errors of payloads, files and their lines.

The errors of the service itself are in `migration_service.errors`, which draws the tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

_MAX_SHOWN = 60


def quoted(value: object) -> str:
    """Return a value from a request for use in a message: in quotes, on one line, and shortened if long.

    Never call this for credentials or personal data.
    """
    text = str(value)
    return repr(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…")


class Operation(StrEnum):
    """What a suggestion does to the value at its path."""

    #: Put another value in its place.
    REPLACE = "replace"
    #: Add a member that is not there.
    ADD = "add"
    #: Leave out a member, or an item of a list.
    REMOVE = "remove"


class Confidence(StrEnum):
    """How sure it is that a suggestion is what was meant."""

    #: The value says the same in another form.
    CERTAIN = "certain"
    #: It follows from the value, or from others of the account.
    LIKELY = "likely"
    #: It makes the finding disappear, but only the supplier's system knows whether it is true.
    GUESS = "guess"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change to a payload that is part of the correction of a finding.

    `kind` names the correction, whose changes belong together. `value` may be personal data, so it has no
    place in a log.
    """

    op: Operation
    path: str
    confidence: Confidence
    kind: str = ""
    value: Any = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the member of `suggestions`. A removal has no value."""
        value = {} if self.op is Operation.REMOVE else {"value": self.value}
        return {"op": self.op, "path": self.path, **value, "confidence": self.confidence, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class ErrorItem:
    """One error of a list (section 7.2): a message, a stable code, and the path of the value concerned.

    `attr` is the dot-delimited path, or None if the error does not concern a field. `suggestions` is the
    correction, if one is known and was asked for. It is never stored.
    """

    code: str
    detail: str
    attr: str | None = None
    suggestions: tuple[Suggestion, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the error object of section 7.2."""
        item: dict[str, Any] = {"detail": self.detail, "code": self.code, "attr": self.attr}
        if self.suggestions:
            item["suggestions"] = [it.to_dict() for it in self.suggestions]
        return item


class ServiceError(Exception):
    """An expected failure. `code` is stable. `detail` is for people and may change.

    The first paragraph of a class's docstring is its meaning in docs/suppliers/errors.md and in the interface
    description. Pass `found` (and `expected`) to name the value from the request in the message. `attr` is
    the field that the error concerns, if it is not that of the class.
    """

    code: str = "error"
    default_detail: ClassVar[str] = "Something went wrong."
    #: The message if `found` is given, which may use {found} and {expected}.
    detail_with_found: ClassVar[str | None] = None
    #: The recommended action of the client.
    remedy: ClassVar[str] = (
        "Send the request again later. If the error persists, tell the operator the `X-Request-ID`."
    )
    #: The field that errors of this class always concern, if any.
    default_attr: ClassVar[str | None] = None
    #: The range of `Retry-After` in seconds, if the answer has that header.
    retry_seconds: ClassVar[tuple[int, int]] = (1, 3)

    def __init__(
        self,
        detail: str | None = None,
        *,
        found: object = None,
        expected: object = None,
        attr: str | None = None,
        errors: Sequence[ErrorItem] = (),
    ) -> None:
        if detail is None and found is not None and self.detail_with_found is not None:
            detail = self.detail_with_found.format(found=quoted(found), expected=quoted(expected))
        self.detail = detail or self.default_detail
        self.errors = list(errors) or [ErrorItem(self.code, self.detail, attr or self.default_attr)]
        super().__init__(self.detail)

    def extra_fields(self) -> dict[str, Any]:
        """Return the fields of the body in addition to detail, code and errors."""
        return {}


def raise_all(found: Sequence[ServiceError]) -> None:
    """Raise the first of these errors with the items of all, unless there is none."""
    if found:
        found[0].errors = [item for error in found for item in error.errors]
        raise found[0]


class InvalidError(ServiceError):
    """The request cannot be carried out as it is."""

    code = "invalid"
    default_detail = "The request cannot be carried out as it is."
    remedy = "Read the detail, and correct the request."


class RequestFailedValidationError(InvalidError):
    """A body or a parameter is invalid. `errors` lists every error."""

    code = "request_failed_validation"
    default_detail = "The request has errors."
    remedy = "Correct the errors listed in `errors`, and send the request again."


class ParseError(RequestFailedValidationError):
    """The body is not JSON that this service accepts."""

    code = "parse_error"
    default_detail = "The body is not valid JSON."
    remedy = "Send JSON in UTF-8."


class AccountFailedValidationError(RequestFailedValidationError):
    """An account payload is invalid. `errors` lists every error."""

    code = "account_failed_validation"
    default_detail = "The account payload has errors."
    remedy = "Correct the errors listed in `errors`, and send the payload again."

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[ErrorItem] = (),
        warnings: Sequence[ErrorItem] = (),
    ) -> None:
        super().__init__(detail, errors=errors)
        self.warnings = list(warnings)
        #: Whether the client requested the full report (`?report=full`).
        self.in_full = False

    def extra_fields(self) -> dict[str, Any]:
        """Return the rest of the full report, if it was requested."""
        if not self.in_full:
            return {}
        return {"valid": False, "warnings": [it.to_dict() for it in self.warnings], "account": None}


class BatchFileError(InvalidError):
    """The file of a batch cannot be read completely. None of its lines was stored."""

    code = "batch_file_unreadable"
    default_detail = "The file cannot be read."
    remedy = "Correct the file, and send the whole file again."


class BatchFileFormatError(BatchFileError):
    """The file of a batch is in another format, such as a JSON array or CSV. None of its lines was stored."""

    code = "batch_file_not_ndjson"
    default_detail = "This does not look like NDJSON. Send one JSON object on each line."
    remedy = "Write each account, or each body, as one line of JSON, and send the whole file again."


class BatchFileTooLargeError(BatchFileError):
    """The file of a batch has more bytes after decompression than the service accepts."""

    code = "batch_file_too_large"
    default_detail = "The file is larger than a batch may be."
    remedy = "Split the file into several batches."


class BatchTooManyLinesError(BatchFileTooLargeError):
    """The file of a batch has more lines than the service accepts. Blank lines count."""

    code = "batch_too_many_lines"
    default_detail = "The file has more lines than a batch may have."
    remedy = "Split the file into several batches."


class BatchCompressionError(BatchFileTooLargeError):
    """The gzip data of a batch holds far more bytes than account payloads compress to."""

    code = "batch_compression_ratio_too_high"
    default_detail = "The gzip data holds too many bytes for its size."
    remedy = "Send the file uncompressed, or with a lower level of compression."


class LineError(InvalidError):
    """A line of a batch failed for a reason specific to batches."""

    #: `error` if the line fails because of it, otherwise `warning`.
    severity: ClassVar[str] = "error"


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
    """An earlier line of the same file has the same account. This line is not used."""

    code = "duplicate_line_in_batch"
    default_detail = "An earlier line of the batch has the same account. This line is not used."
    remedy = "Nothing, if this is the only code of the line: the first line is the same, and is used."
    default_attr = "external_account_number"


class ConflictingLinesError(LineError):
    """The file has this account more than once, with different content. None of its lines is used."""

    code = "conflicting_lines_in_batch"
    default_detail = "The file has this account more than once, with different content. None is used."
    remedy = "Send the account once, in the version that counts."
    default_attr = "external_account_number"
