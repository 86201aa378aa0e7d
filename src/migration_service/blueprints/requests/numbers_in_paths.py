"""External account numbers in paths, which may be any text: with slashes anywhere, or two dots."""

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote, unquote

from werkzeug.routing import PathConverter, Rule
from werkzeug.routing.rules import RulePart


class NumberRule(Rule):
    """A rule whose number may end in a slash, which is followed by that of the path."""

    def _parse_rule(self, rule: str) -> Iterable[RulePart]:
        for part in super()._parse_rule(rule):
            yield replace(part, content=part.content.replace("(?<!/)(/?)", "(/?)"))


class NumberConverter(PathConverter):
    """An external account number in a path: any text, slashes and line feeds included."""

    regex = r"[\s\S]+?"
    part_isolating = False


class LinkedNumberConverter(NumberConverter):
    """A number in the links of pages, encoded twice.

    So `a/skip` is not the page to skip `a`, and a browser does not take `..` for the folder above.
    """

    def to_python(self, value: str) -> str:
        """Return the number of a path."""
        return unquote(value)

    def to_url(self, value: str) -> str:
        """Return a number as a part of a path."""
        once = quote(value, safe="")
        return quote(once if once.strip(".") else once.replace(".", "%2E"), safe="")
