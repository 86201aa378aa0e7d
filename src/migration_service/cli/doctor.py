"""`migration-service doctor`."""

from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TextIO

import click

from migration_payloads.files.output import OutputPath
from migration_service.celery_app import create_celery
from migration_service.cli.output import count, escape_controls, json_option, show_json
from migration_service.cli.session import open_session, read_settings
from migration_service.doctor.bundle import write_bundle
from migration_service.doctor.diagnosis import Diagnosis, ServiceParts, Verdict
from migration_service.doctor.examination import examine
from migration_service.services.reconciliation.answers import find_lost_answers, read_answers

_COLOURS = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.WRONG: "red", Verdict.UNKNOWN: "yellow"}


@click.command()
@click.option(
    "--after-failover",
    "files",
    type=click.File(),
    multiple=True,
    help="Instead, list what this access log or client's journal acknowledges and the database lacks.",
)
@click.option(
    "--bundle",
    "target",
    type=OutputPath(),
    help="Also write findings, settings without secrets, queues, activity and logs to this ZIP file.",
)
@click.option(
    "--log",
    "logs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="A log whose last lines go into the bundle. On a host with systemd, those of the journal do.",
)
@json_option
def doctor(files: tuple[TextIO, ...], target: Path | None, logs: tuple[Path, ...], as_json: bool) -> None:
    """Check every part of the running service, and advise what to do.

    Prints a line or more for each part: settings, disks of this machine, database, Redis, revisions, clocks,
    the workers of each queue, beat, slots, suppliers, batches and attempts. Changes nothing. The exit status
    is 0 if no part is wrong, 1 if one is wrong, and 2 if the command could not run.

    A bundle may be sent to somebody who helps: secrets and the values of statements are left out.
    """
    if files:
        _list_lost(files, as_json)
        return
    parts = ServiceParts(read_settings(), create_celery)
    findings = []
    with closing(parts):
        for finding in examine(parts):
            findings.append(finding)
            _show(finding, as_json)
        if target:
            write_bundle(target, parts, findings, logs)
            click.echo(f"The bundle is {target}.", err=True)
    if Verdict.WRONG in {it.verdict for it in findings}:
        raise click.exceptions.Exit(1)


def _show(finding: Diagnosis, as_json: bool) -> None:
    if as_json:
        record = {"part": finding.part, "verdict": finding.verdict, "seen": finding.seen}
        show_json(record | {"advice": finding.advice or None})
        return
    verdict = click.style(f"{finding.verdict:<7}", fg=_COLOURS[finding.verdict], bold=True)
    click.echo(f"{verdict}  {finding.part:<18}  {escape_controls(finding.seen)}")
    if finding.advice:
        click.echo(f"{'':<29}-> {finding.advice}")


def _list_lost(files: tuple[TextIO, ...], as_json: bool) -> None:
    answers = list(read_answers(chain.from_iterable(files)))
    with open_session(read_settings()) as session:
        lost = find_lost_answers(session, answers)
    for it in lost:
        answer = it.answer
        if as_json:
            account = {
                "import_supplier": answer.import_supplier or None,
                "external_account_number": answer.external_account_number or None,
            }
            said = {"acknowledged": it.acknowledged, "found": it.found}
            show_json({"at": answer.at, "request_id": answer.request_id, **account, **said})
            continue
        subject = f"{answer.import_supplier} {answer.external_account_number}".strip()
        what = escape_controls(f"{answer.at}  {answer.request_id}  {subject}  {it.acknowledged}")
        click.echo(f"{click.style('lost', fg='red', bold=True)}  {what}; the database has {it.found}")
    if not as_json:
        click.echo(f"{count(len(answers), 'acknowledgement')}, of which the database lacks {len(lost)}.")
    if lost:
        raise click.exceptions.Exit(1)
