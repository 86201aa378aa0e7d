"""The option of commands that carry out a decision."""

import click

#: The audit has this name beside the account of the machine.
BY = click.option("--by", metavar="NAME", help="Who decided.  [default: the account on this machine]")
