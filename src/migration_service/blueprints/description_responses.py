"""Answers that have nothing to do with one operation: the service or its web server refuses a request."""

from http import HTTPStatus
from typing import Any

from migration_service.blueprints.description_headers import BY_STATUS, refer

#: Status, name of the component, code of the example, and when it is answered.
_COMMON = (
    (400, "BadRequest", "parse_error", "The request is not HTTP, or its Host header names another service."),
    (404, "NotFound", "not_found", "Nothing has this path."),
    (414, "UriTooLong", "uri_too_long", "The address has more characters than the service reads."),
    (417, "ExpectationFailed", "expectation_failed", "The Expect header asks for what nobody does here."),
    (431, "HeadersTooLarge", "headers_too_large", "The headers are larger than the service reads."),
    (500, "Unexpected", "error", "An error that nobody expected. Nothing was changed."),
)
_WITH_BODY = (
    (408, "BodyTooSlow", "request_timeout", "The body did not arrive in time."),
    (411, "LengthRequired", "length_required", "The request does not say how long its body is."),
    (413, "BodyTooLarge", "request_too_large", "The body is larger than the service reads; `detail` says how "
     "large it may be."),
    (415, "UnsupportedBody", "unsupported_media_type", "This operation does not read bodies of this kind."),
)  # fmt: skip


def common_responses() -> dict[str, Any]:
    """Return the components, by name."""
    return {name: _response(status, code, when) for status, name, code, when in (*_COMMON, *_WITH_BODY)}


def add_common_responses(responses: dict[str, Any], *, has_body: bool) -> dict[str, Any]:
    """Return the responses of an operation with those that it has not described itself, by status."""
    common = (*_COMMON, *_WITH_BODY) if has_body else _COMMON
    references = {str(it[0]): {"$ref": f"#/components/responses/{it[1]}"} for it in common}
    return dict(sorted((references | responses).items()))


def _response(status: int, code: str, when: str) -> dict[str, Any]:
    item = {"detail": when, "code": code, "attr": None}
    return {
        "description": f"{HTTPStatus(status).phrase}. {when}",
        "headers": refer("X-Request-ID", *BY_STATUS.get(str(status), ())),
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/ErrorBody"},
                "example": {"detail": when, "code": code, "errors": [item]},
            }
        },
    }
