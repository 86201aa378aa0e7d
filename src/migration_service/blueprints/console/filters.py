"""What the address of a page filters by."""

from uuid import UUID

from flask import request

from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.states import LineStatus

#: The largest number that a line can have. A larger one is that of no line, too.
_LARGEST = 2**31 - 1


def read_id(text: str | None) -> UUID | None:
    """Return the id after which a list goes on, or None if `text` is none."""
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def read_filter() -> ResultFilter:
    """Return the filter of lines that the arguments of the request make.

    What is unknown or empty filters nothing.
    """
    given = request.args
    status, line = given.get("status"), given.get("line", "")
    return ResultFilter(
        status=LineStatus(status) if status in set(LineStatus) else None,
        code=given.get("code") or None,
        path=given.get("path") or None,
        line=min(int(line[:20]), _LARGEST) if line.isdecimal() else None,
    )
