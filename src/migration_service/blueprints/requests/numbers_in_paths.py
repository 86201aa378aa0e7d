"""External account numbers in paths. They may be any text, even with slashes or two dots."""

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote, unquote

from werkzeug.routing import PathConverter, Rule
from werkzeug.routing.rules import RulePart


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
