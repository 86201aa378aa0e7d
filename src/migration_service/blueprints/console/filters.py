"""Which lines of a batch the address of a page is about."""

from flask import request

from migration_service.services.batches.results import ResultFilter
from migration_service.states import LineStatus

#: The largest number that a line can have. A larger one is that of no line, too.
_LARGEST = 2**31 - 1


def read_filter() -> ResultFilter:
    """Return the filter that the arguments of the request make. What is unknown or empty filters nothing."""
    given = request.args
    status, line = given.get("status"), given.get("line", "")
    return ResultFilter(
        status=LineStatus(status) if status in set(LineStatus) else None,
        code=given.get("code") or None,
        path=given.get("path") or None,
        line=min(int(line[:20]), _LARGEST) if line.isdecimal() else None,
    )
