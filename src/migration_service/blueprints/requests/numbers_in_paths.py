"""Names in paths. External account numbers may be any text, even with slashes or two dots."""

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote, unquote

from flask import request
from werkzeug.routing import PathConverter, Rule
from werkzeug.routing.rules import RulePart

from migration_service.errors import ErrorItem, RequestFailedValidationError

_NOT_TEXT = "\N{REPLACEMENT CHARACTER}"


class NumberRule(Rule):
    """A URL rule for paths in which a number that ends in a slash precedes the trailing slash."""

    def _parse_rule(self, rule: str) -> Iterable[RulePart]:
        for part in super()._parse_rule(rule):
            yield replace(part, content=part.content.replace("(?<!/)(/?)", "(/?)"))


class NumberConverter(PathConverter):
    """An external account number in a path: any text, including slashes and line feeds."""

    regex = r"[\s\S]+?"
    part_isolating = False


class LinkedNumberConverter(NumberConverter):
    """An account number in the links of pages, encoded twice.

    The number `a/skip` is then not mistaken for the page to skip `a`, nor `..` for the parent folder.
    """

    def to_python(self, value: str) -> str:
        """Return the number in a path."""
        return unquote(value)

    def to_url(self, value: str) -> str:
        """Return a number as part of a path."""
        once = quote(value, safe="")
        return quote(once if once.strip(".") else once.replace(".", "%2E"), safe="")


def require_text_in_path() -> None:
    """Raise RequestFailedValidationError if the path has a NUL, or bytes that are not UTF-8.

    PostgreSQL takes no NUL. Half of a surrogate pair is not UTF-8.
    """
    is_text = _is_text(request.environ["PATH_INFO"])
    names: list[str | None] = [
        name
        for name, text in (request.view_args or {}).items()
        if isinstance(text, str) and ("\0" in text or (not is_text and _NOT_TEXT in text))
    ]
    if names or not is_text or "\0" in request.path:
        detail = "The path has a NUL, or bytes that are not UTF-8."
        items = [ErrorItem("invalid_characters", detail, name) for name in names or [None]]
        raise RequestFailedValidationError(errors=items)


def _is_text(path: str) -> bool:
    try:
        path.encode("latin-1").decode()
    except UnicodeError:
        return False
    return True
