"""`migration-client check`."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import click

from migration_payloads.errors import ParseError
from migration_payloads.files.check import Summary, check_lines
from migration_payloads.files.ndjson import Line
from migration_payloads.files.output import OutputPath, replacing, say
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lineage import find_rows
from migration_service_client.command.lines import (
    copy_of_pipe,
    file_argument,
    open_lines,
    profile_option,
    read_lines,
    time_zone_option,
)
from migration_service_client.command.output import json_option, show_json, show_list

#: The member that tells added data from an account, which has customers.
_ADDED = {
    "notes": "notes",
    "transactions": "transactions",
    "statements": "statements",
    "vendor": "payment-instructions",
}


def _require_accounts(lines: Iterator[Line], file: Path) -> Iterator[Line]:
    """Yield the lines. Raise CannotRunError if the first one is data to add to an account."""
    first = next(lines, None)
    if first is None:
        return
    try:
        members = parse_json(first.text or b"{}")
    except ParseError:
        members = {}
    if not isinstance(members, dict) or members.keys() & {"customers", "ledgers"}:
        members = {}
    if kind := next((kind for name, kind in _ADDED.items() if name in members), None):
        raise CannotRunError(
            f"The lines of {file} are {kind}, and this command checks accounts. The service checks them: "
            f"migration-client send {file} --kind {kind} --mode validate"
        )
    yield from chain([first], lines)


@click.command()
@file_argument
@profile_option
@click.option("--supplier", metavar="CODE", help="Require every line to name this import supplier.")
@time_zone_option
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes.  [default: one per processor]",
)
@click.option(
    "--totals",
    "totals_file",
    type=OutputPath(),
    metavar="OUT.json",
    help="Also write the totals of the file as control totals, which a batch can be started with.",
)
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
    """Validate the accounts in FILE by all rules of the service.

    FILE is NDJSON, plain or gzip. - is standard input, of which a copy is kept meanwhile in the folder for
    temporary files, TMPDIR. The exit status is 0 if no line has an error, 1 if a
    line has one, and 2 if the file cannot be read.
    """
    summary = Summary()
    with copy_of_pipe(file) as copy, open_lines(file, "Checking", copy) as lines:
        for part in check_lines(
            _require_accounts(lines, file),
            Profile(profile),
            supplier=supplier,
            time_zone=time_zone,
            processes=processes,
            read_again=partial(read_lines, file, copy),
        ):
            summary.add(part)
    if totals_file is not None:
        with replacing(totals_file) as out:
            out.write(encode_json(summary.totals.control_totals()) + b"\n")
        if as_json and (unread := summary.describe_unread()):
            say(f"{unread}, so the totals in {totals_file} are incomplete.", err=True)
    if as_json:
        show_json(summary.to_dict())
    else:
        tables = list(summary.tables())
        rows = find_rows(file, ((it["account"], it["at"]) for table in tables for it in table))
        for table in tables:
            made_of = ({**it, "made_of": rows.get((it["account"], it["at"]))} if rows else it for it in table)
            show_list(made_of, as_json=False, nothing="")
        for sentence in summary.describe():
            say(sentence)
    click.get_current_context().exit(1 if summary.failed else 0)
