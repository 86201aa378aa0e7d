"""`migration-service batches results` and `failed-lines`: the outcome of each line."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import click
from sqlalchemy.orm import Session, sessionmaker

from migration_service.cli.output import write_piece
from migration_service.cli.session import open_sessions, read_settings
from migration_service.formats import ResultFormat
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.control import get_batch_with_lines
from migration_service.services.batches.results.line_results import (
    ResultFilter,
    count_left_out,
    stream_failed_lines,
    stream_results,
)
from migration_service.states import LineStatus, StagingResult

code_option = click.option(
    "--code", metavar="CODE", help="Only lines with an error or a warning of this code."
)
path_option = click.option(
    "--path",
    metavar="PATH",
    help="Only lines with an error or a warning at or below this path. * stands for any index.",
)
format_option = click.option(
    "--format",
    "result_format",
    type=click.Choice([kind.value for kind in ResultFormat]),
    default=ResultFormat.NDJSON.value,
    show_default=True,
)


@click.command()
@click.argument("batch_id")
@click.option(
    "--status",
    type=click.Choice([status.value for status in LineStatus], case_sensitive=False),
    help="Only lines with this status.",
)
@code_option
@path_option
@click.option(
    "--staging-result",
    type=click.Choice([result.value for result in StagingResult], case_sensitive=False),
    help="Only lines whose payload was staged with this result.",
)
@format_option
def results(
    *, batch_id: str, status: str | None, staging_result: str | None, result_format: str, **where: Any
) -> None:
    """Write the outcome of each line of the batch BATCH_ID to standard output.

    CSV has one row per error or warning, with its line, account, code, path and value. A line without any has
    one row.
    """
    staged = StagingResult(staging_result) if staging_result else None
    wanted = ResultFilter(LineStatus(status) if status else None, staging_result=staged, **where)
    _write(batch_id, lambda sessions, id_: stream_results(sessions, id_, ResultFormat(result_format), wanted))


@click.command("failed-lines")
@click.argument("batch_id")
@code_option
@path_option
def failed_lines(batch_id: str, code: str | None, path: str | None) -> None:
    """Write the failed lines of the batch BATCH_ID to standard output as they were sent.

    Correct them and start a new batch from the corrected file: `reconcile` then counts each account once.
    Lines that were too long to keep, and lines that repeat an earlier account, are left out. Their number
    goes to standard error.
    """
    wanted = ResultFilter(code=code, path=path)
    with open_sessions(read_settings()) as sessions, sessions.begin() as session:
        batch = get_batch_with_lines(session, batch_id, organisation_id=None)
        left_out = count_left_out(session, batch.id, wanted)
    _write(batch_id, lambda sessions, id_: stream_failed_lines(sessions, id_, wanted))
    if left_out:
        click.echo(f"{left_out} failed lines are left out.", err=True)


def _write(batch_id: str, stream: Callable[[sessionmaker[Session], UUID], Iterator[bytes]]) -> None:
    """Write the pieces that `stream` yields. On a terminal, escape control characters."""
    with open_sessions(read_settings()) as sessions:
        with sessions.begin() as session:
            batch = get_batch_with_lines(session, batch_id, organisation_id=None)
            owner = batch.organisation_id
            record(session, AuditAction.BATCH_RESULTS_READ, "batch", batch.id, organisation_id=owner)
        for piece in stream(sessions, batch.id):
            write_piece(piece)
