"""The types of options: moments and dates, and the words of a person who decides."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click


class Moment(click.DateTime):
    """A moment in one of several formats. Its error message shows an example instead of the formats."""

    def __init__(self, formats: Sequence[str], example: str) -> None:
        super().__init__(formats)
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return `value` as a moment."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a date such as {self._example}.", param, ctx)


class _Words(click.ParamType[str]):
    """A text that is not blank. Surrounding blanks are removed."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text without surrounding blanks. Fail if nothing is left."""
        if not value.strip():
            self.fail("It is blank.", param, ctx)
        return value.strip()


#: The type of a reason or a name.
WORDS = _Words()
#: The audit records this name beside the account on the machine.
BY = click.option(
    "--by", metavar="NAME", type=WORDS, help="Who decided.  [default: the account on this machine]"
)
