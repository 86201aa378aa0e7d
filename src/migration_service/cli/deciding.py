"""Options of the commands that carry out a person's decision."""

import click


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
