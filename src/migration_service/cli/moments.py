"""The type of options that are moments or dates."""

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
