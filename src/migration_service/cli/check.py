"""`migration-service check`: validate a file without a server."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from migration_payloads.files.check import Summary, check_lines
from migration_payloads.files.formats import require_ndjson
from migration_payloads.files.ndjson import FileLimits, read_blocks, read_lines
from migration_payloads.moments import DEFAULT_TIME_ZONE, is_time_zone
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json
from migration_service.cli.control_totals import describe_unreadable
from migration_service.cli.output import count, json_option, show_json, show_list
from migration_service.cli.session import CannotRunError
from migration_service.errors import BatchFileError
from migration_service.schemas.control_totals import ControlTotalsSchema


def _read_time_zone(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not is_time_zone(name):
        raise click.BadParameter(f"{name} is not a time zone: expected a name such as {DEFAULT_TIME_ZONE}.")
    return name


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.LENIENT.value,
    show_default=True,
    help="strict: warnings count as errors.",
)
@click.option("--supplier", metavar="CODE", help="Require every line to name this import supplier.")
@click.option(
    "--time-zone",
    default=DEFAULT_TIME_ZONE,
    show_default=True,
    metavar="NAME",
    callback=_read_time_zone,
    help="The supplier's time zone, which determines today's date.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes.  [default: one per processor]",
)
@click.option(
    "--totals",
    "totals_file",
    type=click.File("w", lazy=True),
    metavar="OUT.json",
    help="Also write the totals of the file as control totals (see `batches control-totals`).",
)
@json_option
def check(
    *,
    file: Path,
    profile: str,
    supplier: str | None,
    time_zone: str,
    processes: int | None,
    totals_file: IO[str] | None,
    as_json: bool,
) -> None:
    """Validate the accounts in FILE without a server.

    FILE is NDJSON, plain or gzip. - is standard input. The same rules apply as over the interface. The exit
    status is 0 if no line has an error, 1 if a line has one, and 2 if the file cannot be read.
    """
    summary = Summary()
    try:
        with _open(file) as stream, _progress(hidden=as_json) as progress:
            size = None if file == Path("-") else _size(stream)
            task = progress.add_task("lines", total=size, lines=0)
            for part in check_lines(
                require_ndjson(read_lines(read_blocks(stream), _LIMITS)),
                Profile(profile),
                supplier=supplier,
                time_zone=time_zone,
                processes=processes,
            ):
                summary.add(part)
                position = None if size is None else stream.tell()
                progress.update(task, completed=position, lines=summary.lines)
    except (OSError, BatchFileError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotRunError(f"{file} cannot be read: {reason}") from error
    totals = summary.totals.to_dict()
    if totals_file is not None:
        given = {name: value for name, value in totals.items() if name in ControlTotalsSchema().fields}
        totals_file.write(encode_json(given).decode() + "\n")
        if as_json and (unread := _describe_unread(summary)):
            click.echo(f"{unread}, so the totals in {totals_file.name} are incomplete.", err=True)
    if as_json:
        show_json({name: getattr(summary, name) for name in Summary.__slots__} | {"totals": totals})
    else:
        _show(summary)
    sys.exit(1 if summary.failed else 0)


# A line may be as long as the interface accepts by default. A file may have any length.
_LIMITS = FileLimits(line=8_000_000, total=sys.maxsize)


def _open(file: Path) -> Any:
    if file == Path("-"):
        return nullcontext(sys.stdin.buffer)
    stream: IO[bytes] = file.open("rb")
    return stream


def _size(stream: IO[bytes]) -> int | None:
    """Return the size of a file in bytes, or None for a pipe."""
    return os.fstat(stream.fileno()).st_size if stream.seekable() else None


def _progress(*, hidden: bool) -> Progress:
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.fields[lines]} {task.description}"), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal)


def _describe_unread(summary: Summary) -> str:
    return describe_unreadable(summary.totals.unreadable_lines, summary.totals.unreadable_amounts)


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
    unread = _describe_unread(summary)
    if unread:
        click.echo(f"{unread}, so the totals of the file are incomplete.")
    sound = summary.lines - summary.failed
    click.echo(f"{count(summary.lines, 'line')}: {sound} without errors, {summary.failed} with errors.")
