"""The output of commands: tables for people, or JSON with `--json`, for lists one object per line.

In a pipe or a file, tables are lines of values separated by tabs, without padding or cutting. Control
characters are always escaped, because suppliers choose the texts of accounts and a terminal would obey them.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from migration_payloads.files.output import CONTROLS, escape_character
from migration_payloads.moments import show_moment, write_moments
from migration_payloads.schemas.json import encode_json

#: A row to print, by the names that `--json` gives its values.
Record = Mapping[str, Any]

_Command = TypeVar("_Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

# These controls, and line feeds and tabs.
_CONTROLS = re.compile(CONTROLS.pattern.replace("\x00-\x08", "\x00-\x0a"))


def together(*parameters: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds these arguments and options to a command, in this order."""

    def add(command: _Command) -> _Command:
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return add


def pick(item: object, *names: str) -> dict[str, Any]:
    """Return the attributes of these names."""
    return {name: getattr(item, name) for name in names}


def escape_controls(text: str) -> str:
    """Return the text with each control character written as `\\x1b` or `\\u202e`."""
    return _CONTROLS.sub(escape_character, text)


def escape_json(text: str) -> str:
    """Return JSON text with control characters as JSON escapes, so that it means the same."""
    return CONTROLS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _write_json(value: Any) -> str:
    return escape_json(encode_json(write_moments(value)).decode())


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 account`, `2 accounts`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def show_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(_write_json(value))


def show_list(records: Sequence[Record], as_json: bool, *, nothing: str) -> None:
    """Print records with the same keys. If there are none, print `nothing` for people."""
    if as_json:
        for record in records:
            show_json(record)
    elif records:
        _print_table([_heading(name) for name in records[0]], [list(record.values()) for record in records])
    else:
        click.echo(nothing)


def show_record(record: Record, as_json: bool) -> None:
    """Print one record, one value per line."""
    if as_json:
        show_json(record)
    else:
        _print_table(None, [[_heading(name), value] for name, value in record.items()])


def show_done(record: Record, as_json: bool, sentence: str) -> None:
    """Print what a command has done: `sentence` for people, or `record` as JSON."""
    if as_json:
        show_json(record)
    else:
        click.echo(escape_controls(sentence))


def show_tree(title: str, value: Any) -> None:
    """Print an object and everything in it, one value per line, indented below the key it belongs to."""
    click.echo(click.style(escape_controls(title), bold=True))
    _grow(value, "  ")


def _grow(value: Any, indent: str) -> None:
    for key, below in value.items() if isinstance(value, dict) else enumerate(value):
        name = escape_controls(str(key))
        if isinstance(below, dict | list):
            if below:
                click.echo(indent + click.style(name, bold=True))
                _grow(below, indent + "  ")
        elif below is not None:
            click.echo(f"{indent}{click.style(f'{name}:', dim=True)} {_readable(below)}")


def _print_table(headings: list[str] | None, rows: Sequence[Sequence[Any]]) -> None:
    if not sys.stdout.isatty():
        for row in ([headings] if headings else []) + [*rows]:
            click.echo("\t".join(_readable(value).replace("\n", ", ") for value in row))
        return
    table = Table(box=SIMPLE_HEAD, show_header=headings is not None, pad_edge=False)
    for heading in headings or ("", ""):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_readable(value)) for value in row))
    Console().print(table)


def _heading(name: str) -> str:
    return name.replace("_", " ")


def _readable(value: Any) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return show_moment(value)
        case list():
            return "\n".join(_readable(item) for item in value)
        case dict():
            return _write_json(value)
    return escape_controls(str(value))
