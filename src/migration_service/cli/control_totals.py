"""`migration-service batches control-totals`, and the option that sends them with a batch."""

import sys
from typing import IO, Any

import click

from migration_payloads.files.totals import describe_unreadable
from migration_payloads.schemas.json import parse_json
from migration_service.cli.output import Record, count, json_option, pick, show_json, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.schemas.control_totals import read_control_totals
from migration_service.services.batches.control import get_batch
from migration_service.services.batches.intake.control_totals import (
    ControlTotals,
    report_control_totals,
    set_control_totals,
)

control_totals_option = click.option(
    "--control-totals",
    "control_totals",
    type=click.File("rb"),
    metavar="FILE.json",
    help="The supplier's totals for the file: see `batches control-totals`.",
)


def read_file(file: IO[bytes] | None) -> dict[str, Any] | None:
    """Return the control totals in a file. Raise RequestFailedValidationError or ParseError."""
    return None if file is None else read_control_totals(parse_json(file.read()))


@click.command("control-totals")
@click.argument("batch_id")
@click.argument("file", type=click.File("rb"), required=False)
@json_option
def control_totals(batch_id: str, file: IO[bytes] | None, as_json: bool) -> None:
    """Compare the totals of the batch BATCH_ID's file with the supplier's control totals.

    With FILE (JSON, - is standard input), set the control totals of the batch first:

    \b
    {"accounts": 20000,
     "ledger_balances": {"ENERGY_LEDGER": "-1204388.55"},
     "transactions": {"PAYMENT": {"count": 118204, "sum": "6213827.60"}},
     "statements": 33748}

    Totals that FILE leaves out are not compared. The exit status is 1 if a total differs, or if the batch has
    control totals and part of its file could not be read. Otherwise it is 0.
    """
    with open_session(read_settings()) as session:
        given = read_file(file)
        batch = get_batch(session, batch_id, organisation_id=None)
        report = report_control_totals(batch) if given is None else set_control_totals(session, batch, given)
    if as_json:
        show_json(report)
    else:
        _show(report)
    sys.exit(1 if report.as_given is False else 0)


def _show(report: ControlTotals) -> None:
    rows: list[Record] = [
        {
            "measure": total.measure,
            "given": "not given" if total.given is None else total.given,
            **pick(total, "file", "difference"),
        }
        for total in report.totals
    ]
    show_list(rows, as_json=False, nothing="The batch has no file of accounts.")
    unread = describe_unreadable(report.unreadable_lines, report.unreadable_amounts)
    if unread and report.differing != 0:
        click.echo(f"{unread}.")
    if report.differing is None:
        click.echo("The supplier gave no control totals.")
    elif report.differing:
        click.echo(f"{count(report.differing, 'total')} different from the file.")
    elif unread:
        click.echo(f"The part of the file that could be read matches. {unread}.")
    else:
        click.echo("All control totals match the file.")
