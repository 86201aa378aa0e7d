"""`migration-service batches`."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import click
from sqlalchemy.orm import Session, sessionmaker

from migration_service.celery_app import create_celery
from migration_service.cli.batch_progress import watch_batch
from migration_service.cli.output import Record, json_option, show_done, show_list, show_record
from migration_service.cli.session import CannotRunError, open_session, open_sessions, read_settings
from migration_service.config import Settings
from migration_service.errors import BatchStateError
from migration_service.models import Batch
from migration_service.services.access.audit import AuditAction, record
from migration_service.services.batches.ndjson import FileLimits, read_blocks, read_lines
from migration_service.services.batches.results import ResultFormat, stream_results
from migration_service.services.batches.steering import (
    BatchReport,
    cancel_batch,
    get_batch,
    list_batches,
    pause_batch,
    report_batch,
    resume_batch,
    retry_failed,
)
from migration_service.services.batches.upload import BatchOrder, start_batch
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import BatchMode, LineStatus
from migration_service.tasks.batches import feed_batches


@click.group()
def batches() -> None:
    """Batches: whole books of accounts, driven by workers."""


@batches.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--supplier", required=True, metavar="CODE", help="The import supplier of every line.")
@click.option("--team", metavar="NAME", help="The operations team; needed for import and dry-run.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in BatchMode]),
    required=True,
    help="How far each account goes.",
)
@click.option("--pending", is_flag=True, help="No file: everything that the supplier has pending.")
@click.option("--idempotency-key", metavar="TEXT", help="Running the same again answers with the same batch.")
@click.option("--watch", "watches", is_flag=True, help="Show the progress until it is over.")
@json_option
def start(
    *,
    file: Path | None,
    supplier: str,
    team: str | None,
    mode: str,
    pending: bool,
    idempotency_key: str | None,
    watches: bool,
    as_json: bool,
) -> None:
    """Start a batch from FILE (NDJSON, plain or gzip; - is standard input).

    \b
    validate  check every account, and store nothing
    stage     check and store
    import    check, store and create
    dry-run   all that import does, rolled back

    With --watch the exit status is 0 where every line came to a good end, and 1 otherwise.
    """
    if pending == (file is not None):
        raise click.UsageError("Give either a FILE or --pending.")
    if BatchMode(mode).creates and team is None:
        raise click.UsageError(f"Mode {mode} needs a --team.")
    if pending and not BatchMode(mode).creates:
        raise click.UsageError("What is pending is staged already: --mode import or dry-run.")
    settings = read_settings()
    with open_sessions(settings) as sessions:
        with _open(file) as stream, sessions.begin() as session:
            limits = FileLimits(line=settings.max_body_bytes, total=settings.max_batch_bytes)
            order = BatchOrder(
                mode=BatchMode(mode),
                operations_team_name=team,
                lines=None if stream is None else read_lines(read_blocks(stream), limits),
                idempotency_key=idempotency_key,
            )
            batch_id = str(
                start_batch(
                    session,
                    get_import_supplier(session, supplier, organisation_id=None),
                    order,
                )
            )
        _feed(settings, sessions)
        if watches:
            _watch(sessions, batch_id, as_json)
            return
    show_done({"batch_id": batch_id}, as_json, f"Batch {batch_id} runs: batches watch {batch_id}")


def _open(file: Path | None) -> Any:
    if file is None:
        return nullcontext(None)
    if file == Path("-"):
        return nullcontext(sys.stdin.buffer)
    try:
        stream: IO[bytes] = file.open("rb")
    except OSError as error:
        raise CannotRunError(f"{file} cannot be read: {error.strerror}.") from error
    return stream


@batches.command("list")
@click.option("--supplier", metavar="CODE", help="Only batches of this import supplier.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@json_option
def list_all(supplier: str | None, limit: int, as_json: bool) -> None:
    """Batches, newest first."""
    with open_session(read_settings()) as session:
        found = list_batches(session, organisation_id=None, import_supplier=supplier, limit=limit)
    show_list(
        [_row(report) for report in found], as_json, nothing="There are no batches: batches start FILE."
    )


def _row(report: BatchReport) -> Record:
    done = report.lines - report.counts[LineStatus.PENDING]
    return {
        "batch_id": report.batch_id,
        "import_supplier": report.import_supplier,
        "mode": report.mode,
        "state": report.state,
        "lines": report.lines,
        "done": done,
        "failed": report.counts[LineStatus.FAILED],
        "created_at": report.created_at,
    }


@batches.command()
@click.argument("batch_id")
@json_option
def show(batch_id: str, as_json: bool) -> None:
    """How far the batch BATCH_ID is."""
    with open_session(read_settings()) as session:
        report = report_batch(session, get_batch(session, batch_id, organisation_id=None))
    show_record(record_of(report, as_json), as_json)


def record_of(report: BatchReport, as_json: bool) -> Record:
    """A report as a record; for people without what is nought."""
    record = {name: getattr(report, name) for name in report.__slots__}
    if as_json:
        return record
    counts = {status.lower(): number for status, number in report.counts.items() if number}
    shown = {name: value for name, value in record.items() if value is not None and name != "counts"}
    for kind in ("error_counts", "warning_counts"):
        found = shown.pop(kind, {})
        if found:
            shown[kind.removesuffix("_counts") + "s"] = "\n".join(f"{n} {code}" for code, n in found.items())
    return shown | counts


@batches.command()
@click.argument("batch_id")
@json_option
def watch(batch_id: str, as_json: bool) -> None:
    """Show the progress of the batch BATCH_ID until it is over.

    The exit status is 0 where every line came to a good end, and 1 otherwise.
    """
    with open_sessions(read_settings()) as sessions:
        _watch(sessions, batch_id, as_json)


def _watch(sessions: sessionmaker[Session], batch_id: str, as_json: bool) -> None:
    report = watch_batch(sessions, batch_id, quiet=as_json)
    show_record(record_of(report, as_json), as_json)
    if report.state != "COMPLETED" or report.counts[LineStatus.FAILED]:
        sys.exit(1)


@batches.command()
@click.argument("batch_id")
@json_option
def pause(batch_id: str, as_json: bool) -> None:
    """Begin no further line of the batch BATCH_ID until it is resumed."""
    _change(batch_id, pause_batch, as_json)


@batches.command()
@click.argument("batch_id")
@json_option
def resume(batch_id: str, as_json: bool) -> None:
    """Go on with the batch BATCH_ID, which was paused or stopped."""
    _change(batch_id, resume_batch, as_json)


@batches.command()
@click.argument("batch_id")
@json_option
def cancel(batch_id: str, as_json: bool) -> None:
    """Begin no further line of the batch BATCH_ID, ever; what was done stays."""
    _change(batch_id, cancel_batch, as_json)


def _change(batch_id: str, action: Callable[[Session, Batch], None], as_json: bool) -> None:
    settings = read_settings()
    with open_sessions(settings) as sessions:
        with sessions.begin() as session:
            batch = get_batch(session, batch_id, organisation_id=None)
            action(session, batch)
            state = str(batch.state)
        _feed(settings, sessions)
    show_done({"batch_id": batch_id, "state": state}, as_json, f"Batch {batch_id} is {state}.")


@batches.command("retry-failed")
@click.argument("batch_id")
@json_option
def retry(batch_id: str, as_json: bool) -> None:
    """Do the failed lines of the batch BATCH_ID again, and no others."""
    settings = read_settings()
    with open_sessions(settings) as sessions:
        with sessions.begin() as session:
            retried = retry_failed(session, get_batch(session, batch_id, organisation_id=None))
        _feed(settings, sessions)
    record = {"batch_id": batch_id, "retried": retried}
    show_done(record, as_json, f"{retried} lines of batch {batch_id} are pending again.")


@batches.command()
@click.argument("batch_id")
@click.option("--status", type=click.Choice([status.value for status in LineStatus], case_sensitive=False))
@click.option(
    "--format",
    "result_format",
    type=click.Choice([kind.value for kind in ResultFormat]),
    default=ResultFormat.NDJSON.value,
    show_default=True,
)
def results(batch_id: str, status: str | None, result_format: str) -> None:
    """Write what became of each line of the batch BATCH_ID to standard output."""
    with open_sessions(read_settings()) as sessions:
        with sessions.begin() as session:
            batch = get_batch(session, batch_id, organisation_id=None)
            owner = batch.organisation_id
            record(session, AuditAction.BATCH_RESULTS_READ, "batch", batch.id, organisation_id=owner)
            if batch.lines_removed_at:
                raise BatchStateError("The lines of the batch are not kept any more.")
        wanted = LineStatus(status) if status else None
        for piece in stream_results(sessions, batch.id, ResultFormat(result_format), status=wanted):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def _feed(settings: Settings, sessions: sessionmaker[Session]) -> None:
    """Tell the workers at once; without Redis the sweep does it when Redis is back."""
    feed_batches(create_celery(settings), sessions)
