"""`migration-service check`: validate a file without a server."""

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from migration_payloads.files.check import Summary, check_lines
from migration_payloads.files.check_options import check_options, write_totals
from migration_payloads.files.reading import UnreadableFileError, open_file, reader_of
from migration_payloads.profile import Profile
from migration_service.cli.output import json_option, show_json, show_list
from migration_service.cli.session import CannotRunError


@click.command()
@check_options
@json_option
def check(
    *,
    file: Path,
    profile: str,
    supplier: str | None,
    time_zone: str,
    processes: int | None,
    totals_file: Path | None,
    as_json: bool,
) -> None:
    """Validate the accounts in FILE without a server.

    FILE is NDJSON, plain or gzip. - is standard input. The same rules apply as over the interface. The exit
    status is 0 if no line has an error, 1 if a line has one, and 2 if the file cannot be read.
    """
    summary = Summary()
    try:
        with open_file(file) as opened, _progress(hidden=as_json) as progress:
            task = progress.add_task("lines", total=opened.size, lines=0)
            for part in check_lines(
                opened.lines,
                Profile(profile),
                supplier=supplier,
                time_zone=time_zone,
                processes=processes,
                read_again=reader_of(file),
            ):
                summary.add(part)
                progress.update(task, completed=opened.position, lines=summary.lines)
    except UnreadableFileError as error:
        raise CannotRunError(str(error)) from error
    if totals_file is not None:
        write_totals(summary.totals.control_totals(), totals_file)
        if as_json and (unread := summary.describe_unread()):
            click.echo(f"{unread}, so the totals in {totals_file} are incomplete.", err=True)
    if as_json:
        show_json(summary.to_dict())
    else:
        for table in summary.tables():
            show_list(table, as_json=False, nothing="")
        for sentence in summary.describe():
            click.echo(sentence)
    sys.exit(1 if summary.failed else 0)


def _progress(*, hidden: bool) -> Progress:
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.fields[lines]} {task.description}"), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal)
