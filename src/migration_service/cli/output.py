"""What commands print: tables for people, and with `--json` one JSON object, or one a line for lists."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from migration_service.schemas.json import encode_json
from migration_service.schemas.moments import write_moments

#: A row to print, by the names that `--json` gives its values.
Record = Mapping[str, Any]

#: Wide enough that nothing is cut when the output goes into a file or a pipe.
_UNLIMITED = 10_000

json_option = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")


def show_list(records: Sequence[Record], as_json: bool, *, nothing: str) -> None:
    """Print `records`, which have the same keys; for people `nothing` where there is none."""
    if as_json:
        for record in records:
            click.echo(_to_json(record))
    elif records:
        _print_table([_heading(name) for name in records[0]], [list(record.values()) for record in records])
    else:
        click.echo(nothing)


def show_record(record: Record, as_json: bool) -> None:
    """Print one record: for people a line for each value."""
    if as_json:
        click.echo(_to_json(record))
    else:
        _print_table(None, [[_heading(name), value] for name, value in record.items()])


def show_done(record: Record, as_json: bool, sentence: str) -> None:
    """Print what a command has done: `sentence` for people, `record` for programs."""
    click.echo(_to_json(record) if as_json else sentence)


def _to_json(record: Record) -> bytes:
    return encode_json(write_moments(dict(record)))


def _print_table(headings: list[str] | None, rows: Sequence[Sequence[Any]]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_UNLIMITED)
    table = Table(*(headings or ("", "")), box=SIMPLE_HEAD, show_header=headings is not None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_readable(value)) for value in row))
    console.print(table)


def _heading(name: str) -> str:
    return name.replace("_", " ")


def _readable(value: Any) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return str(value)
