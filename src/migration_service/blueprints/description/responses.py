"""Responses that all operations share, for requests that the service or the proxy in front of it refuses."""

from http import HTTPStatus
from typing import Any

from migration_service.blueprints.requests.description_headers import refer

#: Status, name of the component, code of the example, and when it is returned.
_COMMON = (
    (400, "BadRequest", "parse_error", "The request is not HTTP, or its Host header names another service."),
    (404, "NotFound", "not_found", "Nothing exists at this path."),
    (414, "UriTooLong", "uri_too_long", "The address has more characters than the service accepts."),
    (431, "HeadersTooLarge", "headers_too_large", "The headers are larger than the service accepts."),
    (500, "Unexpected", "error", "An unexpected error. Nothing was changed."),
)
_WITH_BODY = (
    (411, "LengthRequired", "length_required", "The request does not state the length of its body."),
    (413, "BodyTooLarge", "request_too_large", "The body is larger than the service accepts. `detail` has "
     "the limit."),
    (415, "UnsupportedBody", "unsupported_media_type", "This operation does not accept bodies of this type."),
)  # fmt: skip


def common_responses() -> dict[str, Any]:
    """Return the components, by name."""
    return {name: _response(status, code, when) for status, name, code, when in (*_COMMON, *_WITH_BODY)}


def add_common_responses(responses: dict[str, Any], *, has_body: bool) -> dict[str, Any]:
    """Return the responses of an operation by status, adding the common ones that it does not describe."""
    common = (*_COMMON, *_WITH_BODY) if has_body else _COMMON
    references = {str(it[0]): {"$ref": f"#/components/responses/{it[1]}"} for it in common}
    return dict(sorted((references | responses).items()))


def _response(status: int, code: str, when: str) -> dict[str, Any]:
    item = {"detail": when, "code": code, "attr": None}
    return {
        "description": f"{HTTPStatus(status).phrase}. {when}",
        "headers": refer("X-Request-ID"),
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/ErrorBody"},
                "example": {"detail": when, "code": code, "errors": [item]},
            }
        },
    }
