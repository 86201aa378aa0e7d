"""The output of commands: tables for people, or JSON with `--json`, for lists one object per line.

In a pipe or a file, tables are lines of values separated by tabs. What is not printable is escaped, because
a terminal would obey it.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Protocol

import click

from migration_payloads.files.output import say
from migration_payloads.moments import show_moment, write_moment

#: A row to print, by the names that `--json` gives its values.
Record = Mapping[str, Any]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

#: Seconds between two lines that tell of a progress where no bar can be shown.
TELL_EVERY = 60.0

#: The columns of a table are as wide as those of so many rows need.
_MEASURED = 100
#: The columns of tables that would be too wide with all of them.
_COLUMNS = {
    "BatchAnswer": ("batch_id", "name", "import_supplier", "kind", "mode", "state", "lines", "created_at"),
    "WavePlanAnswer": ("plan_id", "import_supplier", "name", "created_at", "finished_at", "undo_id"),
    "WaveAnswer": (
        *("number", "name", "state", "waits_for", "reason", "lines", "existing", "differing", "open"),
        *("opens_at", "closes_at", "ends_at_50", "ends_at_90", "fits_window", "decided_by", "batch_id"),
    ),
    "UndoAnswer": ("undo_id", "import_supplier", "batch_id", "state", "accounts", "started_by", "created_at"),
    "GoLiveAnswer": (
        *("go_live_id", "import_supplier", "batch_id", "state", "live_at", "accounts", "decided_by"),
    ),
    "WebhookAnswer": ("webhook_id", "url", "description", "enabled", "failing_since"),
    "FeedEvent": ("cursor", "type", "created_at", "data"),
}


def escape(text: str) -> str:
    r"""Return the text with each character that is not printable written as `\x1b` or `\u202e`."""
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() else it.encode("unicode_escape").decode() for it in text)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 line`, `2 lines`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def read_moment(text: str) -> datetime:
    """Return the moment that an option has. Raise BadParameter if it is none, or has no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} is not a moment such as 2026-03-01T22:00:00Z.")
    return moment


def show_json(value: Any) -> None:
    """Print a value, which may be a dataclass, as one line of JSON."""
    say(json.dumps(value, default=_plain))


def show_list(records: Iterable[Record], as_json: bool, *, nothing: str) -> None:
    """Print records with the same keys as they come. If there are none, print `nothing` for people."""
    rows = iter(records)
    if as_json:
        for record in rows:
            show_json(record)
        return
    first = list(islice(rows, _MEASURED))
    if not first:
        say(nothing)
        return
    _show_rows([[name.replace("_", " ") for name in first[0]]], first, rows)


def show_record(record: Record, as_json: bool) -> None:
    """Print one record, one value per line."""
    if as_json:
        show_json(record)
    else:
        rows = [{"name": name.replace("_", " "), "value": value} for name, value in record.items()]
        _show_rows([], rows, ())


def show_items(items: Iterable[Any], as_json: bool) -> None:
    """Print answers as a table, or as JSON, one in each line."""
    if as_json:
        for it in items:
            show_json(it)
        return
    show_list(map(_row, items), as_json=False, nothing="There are none.")


def show_answer(answer: Any, as_json: bool) -> None:
    """Print an answer: its values that are known, and below them a table for each list of objects in it."""
    if as_json:
        show_json(answer)
        return
    found = {name: it for name, it in _members(answer).items() if it not in (None, (), {}, [])}
    found |= {name: {key: n for key, n in it.items() if n} for name, it in found.items() if _is_counts(it)}
    if record := {name: it for name, it in found.items() if not _is_table(it)}:
        show_record(record, as_json=False)
    for name, it in found.items():
        if _is_table(it):
            say(f"\n{name.replace('_', ' ')}:\n")
            show_items(it, as_json=False)


class Bar(Protocol):
    """The progress of something: `update` it with what was done since."""

    pos: int

    def update(self, n_steps: int) -> None: ...


class _Told:
    """A progress of which a line is written from time to time, for logs."""

    def __init__(self, label: str, length: int) -> None:
        self._label, self._length = label, length
        self._told_at = time.monotonic()
        self.pos = 0

    def update(self, n_steps: int) -> None:
        self.pos += n_steps
        if time.monotonic() - self._told_at >= TELL_EVERY:
            self._told_at = time.monotonic()
            done = f"{100 * self.pos // self._length}%" if self._length else f"{self.pos:,}"
            say(f"{self._label}: {done}", err=True)


@contextmanager
def progress(label: str, length: int) -> Iterator[Bar]:
    """Show a progress bar on standard error, or a line a minute if that is no terminal.

    It is silent without a label.
    """
    if label and not sys.stderr.isatty():
        yield _Told(label, length)
        return
    with click.progressbar(
        length=length, label=label, file=sys.stderr, hidden=not label, show_pos=True
    ) as bar:
        yield bar


def _row(item: Any) -> Record:
    """Return the values for a table: those of the columns of its kind, or all that are no tables."""
    found = _members(item)
    if columns := _COLUMNS.get(type(item).__name__):
        return {name: found[name] for name in columns}
    return {name: it for name, it in found.items() if not _is_table(it)}


def _members(answer: Any) -> Record:
    """Return the members of an answer, with objects in it as dictionaries."""
    if not dataclasses.is_dataclass(answer):
        return dict(answer)
    found = {it.name: getattr(answer, it.name) for it in dataclasses.fields(answer)}
    return {
        name: dataclasses.asdict(it) if dataclasses.is_dataclass(it) and not isinstance(it, type) else it
        for name, it in found.items()
    }


def _is_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(it) is int for it in value.values())


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and not isinstance(value[0], str | int)


def _show_rows(heading: list[list[str]], first: Sequence[Record], rest: Iterable[Record]) -> None:
    texts = heading + [[_readable(value) for value in row.values()] for row in first]
    more = ([_readable(value) for value in row.values()] for row in rest)
    if not sys.stdout.isatty():
        for row in chain(texts, more):
            say("\t".join(row))
        return
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in chain(texts, more):
        say("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _readable(value: Any) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return show_moment(value)
        case Decimal():
            return f"{value:f}".removesuffix(".0")
        case list() | tuple():
            return ", ".join(map(_readable, value)) or "-"
        case Mapping():
            return ", ".join(f"{name} {_readable(it)}" for name, it in value.items()) or "-"
    return escape(str(value))


def _plain(value: Any) -> Any:
    """Return what JSON has no form for: moments as the service writes them, and amounts exactly as texts."""
    if dataclasses.is_dataclass(value):
        return {it.name: getattr(value, it.name) for it in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return write_moment(value)
    return value.isoformat() if isinstance(value, date) else str(value)
