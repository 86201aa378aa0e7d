"""What the web server itself refuses, before the application sees it, in the form of section 7.2."""

import json
from http import HTTPStatus
from typing import Any

from gunicorn.http import errors

#: The status and the code of what gunicorn cannot read; everything else is 400.
_REFUSALS: dict[type[Exception], tuple[HTTPStatus, str, str]] = {
    errors.LimitRequestLine: (
        HTTPStatus.REQUEST_URI_TOO_LONG,
        "uri_too_long",
        "The request line is longer than {0.limit_request_line} bytes.",
    ),
    errors.LimitRequestHeaders: (
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "headers_too_large",
        "At most {0.limit_request_fields} headers of {0.limit_request_field_size} bytes each are read.",
    ),
    errors.ExpectationFailed: (
        HTTPStatus.EXPECTATION_FAILED,
        "expectation_failed",
        "The only expectation that is understood is 100-continue.",
    ),
    errors.UnsupportedTransferCoding: (
        HTTPStatus.NOT_IMPLEMENTED,
        "parse_error",
        "The only Transfer-Encoding that is understood is chunked.",
    ),
}
_OTHER = (HTTPStatus.BAD_REQUEST, "parse_error", "The request is not well-formed HTTP/1.1.")
_FAILURE = (HTTPStatus.INTERNAL_SERVER_ERROR, "error", "An unexpected error. Nothing was changed.")


# These are headers of an answer, which the application got wrong.
_OUR_FAULT = (errors.InvalidResponseHeader, errors.InvalidResponseHeaderName, errors.ConfigurationProblem)


def is_client_error(exception: BaseException) -> bool:
    """Return whether the client sent what gunicorn cannot read, rather than that something failed here."""
    return isinstance(exception, errors.ParseException) and not isinstance(exception, _OUR_FAULT)


def describe_refusal(exception: BaseException, settings: Any, request_id: str) -> bytes:
    """Return the whole HTTP answer to a request that gunicorn could not serve.

    `settings` are gunicorn's own: messages name the limits among them.
    """
    fallback = _OTHER if is_client_error(exception) else _FAILURE
    found = (refusal for kind, refusal in _REFUSALS.items() if isinstance(exception, kind))
    status, code, text = next(found, fallback)
    detail = text.format(settings)
    item = {"detail": detail, "code": code, "attr": None}
    body = json.dumps({"detail": detail, "code": code, "errors": [item]}).encode()
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"X-Request-ID: {request_id}",
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body
