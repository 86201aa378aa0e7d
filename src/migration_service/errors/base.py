"""The base of every error, and the errors that belong to no subject."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

_MAX_SHOWN = 60


def quoted(value: object) -> str:
    """Return a value from a request for use in a message: in quotes, on one line, and shortened if long.

    Never call this for credentials or personal data.
    """
    text = str(value)
    return repr(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…")


@dataclass(frozen=True, slots=True)
class ErrorItem:
    """One error of a list (section 7.2): a message, a stable code, and the path of the value concerned.

    `attr` is the dot-delimited path, or None if the error does not concern a field.
    """

    code: str
    detail: str
    attr: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return the error object of section 7.2."""
        return {"detail": self.detail, "code": self.code, "attr": self.attr}


class ServiceError(Exception):
    """An expected failure. `code` is stable. `detail` is for people and may change.

    The first paragraph of a class's docstring is its meaning in docs/suppliers/errors.md and in the interface
    description. Pass `found` (and `expected`) to name the value from the request in the message.
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
        errors: Sequence[ErrorItem] = (),
    ) -> None:
        if detail is None and found is not None and self.detail_with_found is not None:
            detail = self.detail_with_found.format(found=quoted(found), expected=quoted(expected))
        self.detail = detail or self.default_detail
        self.errors = list(errors) or [ErrorItem(self.code, self.detail, self.default_attr)]
        super().__init__(self.detail)

    def extra_fields(self) -> dict[str, Any]:
        """Return the fields of the body in addition to detail, code and errors."""
        return {}


class InvalidError(ServiceError):
    """The request cannot be carried out as it is."""

    code = "invalid"
    default_detail = "The request cannot be carried out as it is."
    remedy = "Read the detail, and correct the request."


class OperatorError(InvalidError):
    """A command, or a form of the console, cannot be carried out as it is. Clients never get this error."""


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


class NotFoundError(ServiceError):
    """The object that a path names does not exist, or belongs to another organisation."""

    code = "not_found"
    default_detail = "Nothing exists at this path."
    remedy = "Check the path."


class ServiceUnavailableError(ServiceError):
    """A part of the service that this request needs is unavailable. Nothing was changed."""

    code = "service_unavailable"
    default_detail = "The service cannot do this right now. Nothing was changed. Try again."
    remedy = "Send the same request again after the number of seconds in `Retry-After`."
