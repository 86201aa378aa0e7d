"""`migration-service doctor`."""

import click

from migration_service.celery_app import create_celery
from migration_service.cli.output import escape_controls, json_option, show_json
from migration_service.cli.session import read_settings
from migration_service.doctor.diagnosis import ServiceParts, Verdict
from migration_service.doctor.examination import examine

_COLOURS = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.WRONG: "red", Verdict.UNKNOWN: "yellow"}


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check every part of the running service, and advise what to do.

    Prints a line or more for each part: settings, disks of this machine, database, Redis, broker, revisions,
    clocks, the workers of each queue, beat, slots, suppliers, batches and attempts. Changes nothing. The exit
    status is 0 if no part is wrong, 1 if one is wrong, and 2 if the command could not run.
    """
    parts = ServiceParts(read_settings(), create_celery)
    verdicts = set()
    for finding in examine(parts):
        verdicts.add(finding.verdict)
        if as_json:
            record = {"part": finding.part, "verdict": finding.verdict, "seen": finding.seen}
            show_json(record | {"advice": finding.advice or None})
            continue
        verdict = click.style(f"{finding.verdict:<7}", fg=_COLOURS[finding.verdict], bold=True)
        click.echo(f"{verdict}  {finding.part:<18}  {escape_controls(finding.seen)}")
        if finding.advice:
            click.echo(f"{'':<29}-> {finding.advice}")
    if Verdict.WRONG in verdicts:
        raise click.exceptions.Exit(1)
