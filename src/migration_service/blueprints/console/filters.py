"""Filters in the address of a page."""

from uuid import UUID

from flask import request

from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.states import LineStatus

#: The largest line number. No line has a larger one.
_LARGEST = 2**31 - 1


def read_id(text: str | None) -> UUID | None:
    """Return the id after which a list continues, or None if `text` is not an id."""
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def read_filter() -> ResultFilter:
    """Return the filter of lines in the arguments of the request.

    Unknown and empty values filter nothing.
    """
    given = request.args
    status, line = given.get("status"), given.get("line", "")
    return ResultFilter(
        status=LineStatus(status) if status in set(LineStatus) else None,
        code=given.get("code") or None,
        path=given.get("path") or None,
        line=min(int(line[:20]), _LARGEST) if line.isdecimal() else None,
    )
