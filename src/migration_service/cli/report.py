"""`migration-service report`."""

from pathlib import Path

import click

from migration_payloads.files.output import OutputPath, replacing
from migration_service.cli.output import json_option, show_done
from migration_service.cli.session import CannotRunError, open_sessions, read_settings
from migration_service.services.reporting.report import make_report
from migration_service.services.reporting.report_page import render_report
from migration_service.services.reporting.report_subject import find_subject


@click.command()
@click.argument("target", metavar="SUPPLIER|BATCH_ID|PLAN_ID")
@click.argument("number", required=False, type=click.IntRange(1))
@click.option(
    "--html",
    "file",
    required=True,
    type=OutputPath(),
    metavar="FILE",
    help="Where to write the page. An existing file is replaced.",
)
@json_option
def report(target: str, number: int | None, file: Path, as_json: bool) -> None:
    """Write a report as one HTML page that can be shared or printed.

    The report is about a supplier, a batch, or the waves of a plan. With NUMBER, it is about that wave.

    It shows what was planned, done and failed, times and rates, the reconciliation with every kind of
    difference, what was undone, who decided what, and the versions. For waves it adds their windows, how
    their accounts were chosen, and the decision on each. The page contains no personal data and no scripts,
    loads nothing from elsewhere, and prints on A4.
    """
    with open_sessions(read_settings()) as sessions:
        with sessions.begin() as session:
            subject = find_subject(session, target, organisation_id=None, wave=number)
        page = render_report(make_report(sessions, subject))
    try:
        with replacing(file) as out:
            out.write(page.encode())
    except OSError as error:
        raise CannotRunError(f"{file} cannot be written: {error.strerror}.") from error
    record = {"file": str(file), "kind": subject.kind, "import_supplier": subject.supplier.code}
    what = f"wave {number} of {target!r}" if number else f"{subject.kind} {target!r}"
    show_done(record, as_json, f"The report of {what} was written to {file}.")
