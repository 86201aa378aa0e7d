"""Which lines of a batch the address of a page is about."""

from flask import request

from migration_service.services.batches.results import ResultFilter
from migration_service.states import LineStatus

#: Digits of a line's number that are read. Longer ones are the number of no line.
_DIGITS = 9


def read_filter() -> ResultFilter:
    """Return the filter that the arguments of the request make. What is unknown or empty filters nothing."""
    given = request.args
    status, line = given.get("status"), given.get("line", "")
    return ResultFilter(
        status=LineStatus(status) if status in set(LineStatus) else None,
        code=given.get("code") or None,
        path=given.get("path") or None,
        line=int(line[:_DIGITS]) if line.isdecimal() else None,
    )
