"""The pages of lists: the requested number of entries, the entry they come after, and the next page."""

from typing import Any
from uuid import UUID

from flask import Response, jsonify, request, url_for

from migration_service.errors import ErrorItem, RequestFailedValidationError

LARGEST_PAGE = 500


def read_page(arguments: dict[str, Any]) -> tuple[int, UUID | None]:
    """Return the requested number of entries, and the id they come after.

    Raise RequestFailedValidationError.
    """
    limit = arguments["limit"]
    require_page_size(limit, LARGEST_PAGE)
    try:
        return limit, UUID(arguments["cursor"]) if "cursor" in arguments else None
    except ValueError:
        detail = "This is not a cursor from a Link header."
        raise RequestFailedValidationError(errors=[ErrorItem("invalid", detail, "cursor")]) from None


def require_page_size(limit: int, largest: int) -> None:
    """Raise RequestFailedValidationError if `limit` is not an allowed page size."""
    if not 1 <= limit <= largest:
        detail = f"A page has 1 to {largest} entries, not {limit}."
        raise RequestFailedValidationError(errors=[ErrorItem("page_size_out_of_range", detail, "limit")])


def answer_page(records: list[dict[str, Any]], limit: int, cursor: str) -> Response:
    """Return the first `limit` records, with a link to the next page after the last one's `cursor`."""
    response = jsonify(records[:limit])
    if len(records) > limit:
        link_next(response, limit, records[limit - 1][cursor])
    return response


def link_next(response: Response, limit: int, cursor: str) -> None:
    """Link to the next page of the current request's list, which starts after `cursor`."""
    others = {name: value for name, value in request.args.items() if name not in ("limit", "cursor")}
    values: dict[str, Any] = {**(request.view_args or {}), "limit": limit, "cursor": cursor, **others}
    response.headers["Link"] = f'<{url_for(request.endpoint or "", **values)}>; rel="next"'
