"""`migration-client check`."""

from pathlib import Path

import click

from migration_payloads.files.check import Summary, check_lines
from migration_payloads.files.check_options import check_options, write_totals
from migration_payloads.files.output import say
from migration_payloads.files.reading import reader_of
from migration_payloads.profile import Profile
from migration_service_client.command.lines import open_lines
from migration_service_client.command.output import json_option, show_json, show_list


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
    """Validate the accounts in FILE by all rules of the service.

    FILE is NDJSON, plain or gzip. - is standard input. The exit status is 0 if no line has an error, 1 if a
    line has one, and 2 if the file cannot be read.
    """
    summary = Summary()
    with open_lines(file, "Checking") as lines:
        for part in check_lines(
            lines,
            Profile(profile),
            supplier=supplier,
            time_zone=time_zone,
            processes=processes,
            read_again=reader_of(file),
        ):
            summary.add(part)
    if totals_file is not None:
        write_totals(summary.totals.control_totals(), totals_file)
        if as_json and (unread := summary.describe_unread()):
            say(f"{unread}, so the totals in {totals_file} are incomplete.", err=True)
    if as_json:
        show_json(summary.to_dict())
    else:
        for table in summary.tables():
            show_list(table, as_json=False, nothing="")
        for sentence in summary.describe():
            say(sentence)
    click.get_current_context().exit(1 if summary.failed else 0)
