"""The pages of lists: how many entries a request asks for, and after which one they come."""

from typing import Any
from uuid import UUID

from migration_service.errors import ErrorItem, RequestFailedValidationError

LARGEST_PAGE = 500


def read_page(arguments: dict[str, Any]) -> tuple[int, UUID | None]:
    """Return how many entries a request asks for, and the id after which they come.

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
    """Raise RequestFailedValidationError unless a page of `limit` entries can be asked for."""
    if not 1 <= limit <= largest:
        detail = f"A page has 1 to {largest} entries, not {limit}."
        raise RequestFailedValidationError(errors=[ErrorItem("page_size_out_of_range", detail, "limit")])
