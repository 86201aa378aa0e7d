"""The pages of lists: the requested number of entries, and the entry they come after."""

from typing import Any
from uuid import UUID

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
