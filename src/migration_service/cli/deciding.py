"""The options of commands that carry out a decision."""

import click


class _Words(click.ParamType[str]):
    """A text that says something, without blanks around it."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text. Fail if there are only blanks."""
        if not value.strip():
            self.fail("It is blank.", param, ctx)
        return value.strip()


#: The type of a reason or a name.
WORDS = _Words()
#: The audit has this name beside the account of the machine.
BY = click.option(
    "--by", metavar="NAME", type=WORDS, help="Who decided.  [default: the account on this machine]"
)
