"""`migration-service check`: validate a file without a running service."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from migration_service.cli.output import json_option, show_list
from migration_service.cli.session import CannotRunError
from migration_service.errors import BatchFileError
from migration_service.schemas.json import encode_json
from migration_service.services.batches.ndjson import FileLimits, read_blocks, read_lines
from migration_service.services.batches.offline_check import Summary, check_lines
from migration_service.states import Profile


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.LENIENT.value,
    show_default=True,
    help="strict: warnings count as errors.",
)
@click.option("--supplier", metavar="CODE", help="Every line must name this import supplier.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that validate.  [default: one per processor]",
)
@json_option
def check(file: Path, profile: str, supplier: str | None, processes: int | None, as_json: bool) -> None:
    """Validate the accounts in FILE without a running service.

    FILE is NDJSON, plain or gzip; - is standard input. The rules are those of the interface. The exit status
    is 0 if no line has an error, 1 if a line has one, and 2 if the file cannot be read.
    """
    summary = Summary()
    try:
        with _open(file) as stream, _progress(hidden=as_json) as progress:
            task = progress.add_task("lines", total=_size(file), lines=0)
            for part in check_lines(
                read_lines(read_blocks(stream), _LIMITS),
                Profile(profile),
                supplier=supplier,
                processes=processes,
            ):
                summary.add(part)
                position = stream.tell() if file != Path("-") else None
                progress.update(task, completed=position, lines=summary.lines)
        if not summary.lines:
            raise BatchFileError("The file has no lines.")
    except (OSError, BatchFileError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotRunError(f"{file} cannot be read: {reason}") from error
    if as_json:
        click.echo(encode_json(summary))
    else:
        _show(summary)
    sys.exit(1 if summary.failed else 0)


# The longest line is what the interface accepts by default. A file may have any length.
_LIMITS = FileLimits(line=8_000_000, total=sys.maxsize)


def _open(file: Path) -> Any:
    if file == Path("-"):
        return nullcontext(sys.stdin.buffer)
    stream: IO[bytes] = file.open("rb")
    return stream


def _size(file: Path) -> int | None:
    return None if file == Path("-") else file.stat().st_size


def _progress(*, hidden: bool) -> Progress:
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.fields[lines]} {task.description}"), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal)


def _show(summary: Summary) -> None:
    for kind, counts in (("error", summary.errors), ("warning", summary.warnings)):
        rows = []
        for code, number in counts.most_common():
            first = summary.examples[code][0]
            rows.append(
                {
                    kind: code,
                    "lines": number,
                    "first_on_line": first.line_number,
                    "account": first.external_account_number,
                    "at": first.attr,
                    "says": first.detail,
                }
            )
        if rows:
            show_list(rows, as_json=False, nothing="")
    sound = summary.lines - summary.failed
    click.echo(f"{summary.lines} lines: {sound} without errors, {summary.failed} with errors.")
