"""Options that are moments or dates."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click


class Moment(click.DateTime):
    """A moment in one of some formats. Its error has an example instead of the formats."""

    def __init__(self, formats: Sequence[str], example: str) -> None:
        super().__init__(formats)
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment that `value` says."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a date as {self._example}.", param, ctx)
