"""The pages of lists that go on after an id, newest first."""

from typing import Any
from uuid import UUID

from migration_service.errors import ErrorItem, RequestFailedValidationError

LARGEST_PAGE = 500


def read_page(arguments: dict[str, Any]) -> tuple[int, UUID | None]:
    """Return how many entries a request asks for, and the id after which they come.

    Raise RequestFailedValidationError.
    """
    limit = arguments["limit"]
    if not 1 <= limit <= LARGEST_PAGE:
        detail = f"A page has 1 to {LARGEST_PAGE} entries."
        raise RequestFailedValidationError(errors=[ErrorItem("out_of_range", detail, "limit")])
    try:
        return limit, UUID(arguments["cursor"]) if "cursor" in arguments else None
    except ValueError:
        detail = "This is not a cursor from a Link header."
        raise RequestFailedValidationError(errors=[ErrorItem("invalid", detail, "cursor")]) from None
