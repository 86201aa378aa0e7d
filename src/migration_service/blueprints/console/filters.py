"""Filters in the address of a page."""

from enum import StrEnum
from typing import TypeVar
from uuid import UUID

from flask import request

from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.reconciliation.submitted import MAX_LINE
from migration_service.states import LineStatus

_Word = TypeVar("_Word", bound=StrEnum)


def read_id(text: str | None) -> UUID | None:
    """Return the id after which a list continues, or None if `text` is not an id."""
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def read_line(text: str) -> int | None:
    """Return the number of a line, or None if `text` is not a number."""
    return min(int(text[:20]), MAX_LINE) if text.isdecimal() else None


def read_word(words: type[_Word], name: str) -> _Word | None:
    """Return the argument of this name as one of the words, or None if it is not one of them."""
    given = request.args.get(name)
    return words(given) if given in set(words) else None


def read_yes_no(name: str) -> bool | None:
    """Return the argument of this name, which is `yes` or `no`, or None for anything else."""
    return {"yes": True, "no": False}.get(request.args.get(name, ""))


def read_filter() -> ResultFilter:
    """Return the filter of lines in the arguments of the request.

    Unknown and empty values filter nothing.
    """
    given = request.args
    return ResultFilter(
        status=read_word(LineStatus, "status"),
        code=given.get("code") or None,
        path=given.get("path") or None,
        line=read_line(given.get("line", "")),
    )
