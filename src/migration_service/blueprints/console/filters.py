"""Filters in the address of a page."""

from flask import request

from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.reconciliation.submitted import MAX_LINE
from migration_service.states import LineStatus


def read_yes_no(name: str) -> bool | None:
    """Return the argument of this name, which is `yes` or `no`, or None for anything else."""
    return {"yes": True, "no": False}.get(request.args.get(name, ""))


def read_filter() -> ResultFilter:
    """Return the filter of lines in the arguments of the request.

    Unknown and empty values filter nothing.
    """
    given, line = request.args, request.args.get("line", "")
    return ResultFilter(
        status=given.get("status", type=LineStatus),
        code=given.get("code") or None,
        path=given.get("path") or None,
        line=min(int(line[:20]), MAX_LINE) if line.isdecimal() else None,
    )
