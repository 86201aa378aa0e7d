"""`migration-service batches`."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import click
from marshmallow import ValidationError
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits, read_blocks
from migration_payloads.profile import Profile
from migration_service.cli.batch_comparison import compare
from migration_service.cli.batch_error_threshold import (
    brake,
    describe_threshold,
    error_threshold,
    threshold_options,
)
from migration_service.cli.batch_progress import describe_condition, describe_time_left, watch_batch
from migration_service.cli.batch_results import code_option, failed_lines, path_option, results
from migration_service.cli.control_totals import control_totals, control_totals_option, read_file
from migration_service.cli.output import (
    Record,
    count,
    json_option,
    pick,
    show_done,
    show_list,
    show_record,
)
from migration_service.cli.session import CannotRunError, open_session, open_sessions, read_settings
from migration_service.cli.workers import tell_batch_workers
from migration_service.config import Settings
from migration_service.models import Batch
from migration_service.schemas.extracts import extract_moment
from migration_service.services.batches.control import (
    BatchReport,
    cancel_batch,
    get_batch,
    pause_batch,
    report_batch,
    resume_batch,
)
from migration_service.services.batches.error_threshold_options import read_threshold
from migration_service.services.batches.intake.options import INCLUDE_OLDER_VERSIONS, BatchOrder
from migration_service.services.batches.intake.spool import SpooledLines, spool
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.batches.results.counts import count_open
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.batches.results.listing import list_batches
from migration_service.services.batches.results.reverted import count_created
from migration_service.services.batches.retry import retry_failed
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import BatchKind, BatchMode, BatchSource, LineStatus

_STANDARD_INPUT = Path("-")
#: The names that people see for counts.
_COUNTED = {"error_counts": "errors", "warning_counts": "warnings", "staging_counts": "staging"}


@click.group()
def batches() -> None:
    """Start and control batches, which migrate many accounts or add data to them."""


batches.add_command(results)
batches.add_command(failed_lines)
batches.add_command(compare)
batches.add_command(error_threshold)
batches.add_command(brake)
batches.add_command(control_totals)


@batches.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--supplier", required=True, metavar="CODE", help="The import supplier of every line.")
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in BatchKind]),
    default=BatchKind.ACCOUNTS.value,
    show_default=True,
    help="The kind of the lines. Each line is a request body of the single endpoint.",
)
@click.option("--team", metavar="NAME", help="The operations team. Required to create accounts.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in BatchMode]),
    required=True,
    help="What to do with each line: see above.",
)
@click.option(
    "--pending", is_flag=True, help="Process all pending accounts of the supplier instead of a FILE."
)
@click.option(
    "--include-older-versions",
    is_flag=True,
    help="With --pending: include accounts whose newer version was refused.",
)
@click.option(
    "--check-previously-added/--no-check-previously-added",
    default=None,
    help="Transactions only: skip those that were already added.  [default: yes]",
)
@click.option(
    "--force-add-to-current-statement/--no-force-add-to-current-statement",
    default=None,
    help="Transactions only: move dates outside the open period into it.  [default: yes]",
)
@click.option("--name", metavar="TEXT", help="A name to recognise the batch by.")
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    help="The profile to validate the lines under.  [default: the supplier's]",
)
@click.option(
    "--extracted-at",
    metavar="MOMENT",
    help="When the accounts were extracted, such as 2026-03-01T22:00:00Z. Later extracts are not replaced.",
)
@click.option(
    "--idempotency-key",
    metavar="TEXT",
    help="With the same key, the same command returns the same batch instead of starting another.",
)
@control_totals_option
@threshold_options
@click.option("--watch", "watches", is_flag=True, help="Show the progress until the batch ends.")
@json_option
def start(
    *,
    file: Path | None,
    supplier: str,
    kind: str,
    team: str | None,
    mode: str,
    pending: bool,
    include_older_versions: bool,
    check_previously_added: bool | None,
    force_add_to_current_statement: bool | None,
    name: str | None,
    profile: str | None,
    extracted_at: str | None,
    idempotency_key: str | None,
    control_totals: IO[bytes] | None,
    watches: bool,
    as_json: bool,
    **threshold: Any,
) -> None:
    """Start a batch from FILE: NDJSON, plain or gzip. - is standard input.

    \b
    validate  check every line, store nothing
    stage     check and store (accounts only)
    import    check, store and create the accounts, or add data to existing ones
    dry-run   do everything that import does, then roll it back

    A batch in mode import is paused when more than half of its last 200 lines have failed, unless
    --stop-after-errors says otherwise.

    With --watch, the exit status is 0 if the batch completes without a failed line, and 1 otherwise.
    """
    if pending == (file is not None):
        raise click.UsageError("Expected either a FILE or --pending: give one of them.")
    settings = read_settings()
    options = {
        "check_previously_added": check_previously_added,
        "force_add_to_current_statement": force_add_to_current_statement,
        INCLUDE_OLDER_VERSIONS: include_older_versions or None,
    }
    with open_sessions(settings) as sessions:
        order = BatchOrder(
            mode=BatchMode(mode),
            kind=BatchKind(kind),
            options={name: value for name, value in options.items() if value is not None},
            operations_team_name=team,
            source=BatchSource.PENDING if pending else BatchSource.UPLOAD,
            idempotency_key=idempotency_key,
            name=name,
            file_name=None if file in (None, _STANDARD_INPUT) else file.name,
            control_totals=read_file(control_totals),
            profile=Profile(profile) if profile else None,
            extracted_at=_read_moment(extracted_at) if extracted_at else None,
            error_threshold=read_threshold(**threshold),
        )
        with (
            _open(file) as stream,
            _spooled(stream, supplier, order, settings) as lines,
            sessions.begin() as session,
        ):
            found = get_import_supplier(session, supplier, organisation_id=None)
            batch_id = str(start_batch(session, found, order, lines))
        tell_batch_workers(settings, sessions)
        if watches:
            _watch(sessions, batch_id, as_json)
            return
    show_done({"batch_id": batch_id}, as_json, f"Batch {batch_id} was started: batches watch {batch_id}")


def _read_moment(text: str) -> datetime:
    try:
        moment: datetime = extract_moment().deserialize(text)
    except ValidationError as error:
        raise click.BadParameter(" ".join(map(str, error.messages)), param_hint="--extracted-at") from error
    return moment


def _spooled(
    stream: IO[bytes] | None, supplier: str, order: BatchOrder, settings: Settings
) -> AbstractContextManager[SpooledLines | None]:
    """Read the whole file before the transaction starts. Quotas apply to clients, not to operators."""
    if stream is None:
        return nullcontext(None)
    limits = FileLimits(line=settings.max_body_bytes, total=settings.max_batch_bytes)
    identity = order.identify(supplier)
    if stream.seekable():
        return nullcontext(SpooledLines(stream, limits, identity=identity))
    return spool(read_blocks(stream), limits, identity=identity, folder=settings.upload_folder)


def _open(file: Path | None) -> Any:
    if file is None:
        return nullcontext(None)
    if file == _STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    try:
        stream: IO[bytes] = file.open("rb")
    except OSError as error:
        raise CannotRunError(f"{file} cannot be read: {error.strerror}.") from error
    return stream


@batches.command("list")
@click.option("--supplier", metavar="CODE", help="Only batches of this import supplier.")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="How many batches at most."
)
@json_option
def list_all(supplier: str | None, limit: int, as_json: bool) -> None:
    """List batches, newest first."""
    with open_session(read_settings()) as session:
        found = list_batches(session, organisation_id=None, import_supplier=supplier, limit=limit)
    show_list(
        [_row(report) for report in found],
        as_json,
        nothing="There are no batches yet. Start one: migration-service batches start FILE",
    )


def _row(report: BatchReport) -> Record:
    done = report.lines - count_open(report.counts)
    return {
        "batch_id": report.batch_id,
        "name": report.name or report.file_name,
        **pick(report, "import_supplier", "kind", "mode", "state", "lines"),
        "done": done,
        "failed": report.counts[LineStatus.FAILED],
        "undone": report.undone or None,
        "created_at": report.created_at,
    }


@batches.command()
@click.argument("batch_id")
@json_option
def show(batch_id: str, as_json: bool) -> None:
    """Show the progress of the batch BATCH_ID."""
    with open_session(read_settings()) as session:
        report = report_batch(session, get_batch(session, batch_id, organisation_id=None))
    show_record(record_of(report, as_json), as_json)


def record_of(report: BatchReport, as_json: bool) -> Record:
    """Return the fields of a report. For people, add units and leave out zero and unknown values."""
    record = pick(report, *report.__slots__)
    if as_json:
        return record
    counts = {status.lower(): number for status, number in report.counts.items() if number}
    without = {"counts", "reverted"} | (set() if report.undone else {"undone"})
    shown = {name: value for name, value in record.items() if value is not None and name not in without}
    for kind, name in _COUNTED.items():
        found = shown.pop(kind, {})
        if found:
            shown[name] = [f"{n} {code}" for code, n in found.items()]
    if report.brake is not None:
        shown["error_threshold"] = describe_threshold(shown.pop("brake"))
    if report.rate is not None:
        shown["rate"] = f"{report.rate} lines/s"
    for name in ("time_left", "time_left_low", "time_left_high"):
        shown.pop(name, None)
    if left := describe_time_left(report):
        shown["time_left"] = left
    if report.condition is not None:
        shown["condition"] = describe_condition(report)
    if report.undone:
        counts["existing"] = count_created(report.counts) - report.undone
    return shown | counts


@batches.command()
@click.argument("batch_id")
@json_option
def watch(batch_id: str, as_json: bool) -> None:
    """Show the progress of the batch BATCH_ID until it ends or is paused for too many errors.

    The exit status is 0 if the batch completes without a failed line, and 1 otherwise.
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
    """Pause the batch BATCH_ID: no more lines are started until it is resumed."""
    _change(batch_id, pause_batch, as_json)


@batches.command()
@click.argument("batch_id")
@json_option
def resume(batch_id: str, as_json: bool) -> None:
    """Resume the batch BATCH_ID, which was paused or stopped."""
    _change(batch_id, resume_batch, as_json)


@batches.command()
@click.argument("batch_id")
@json_option
def cancel(batch_id: str, as_json: bool) -> None:
    """Cancel the batch BATCH_ID permanently. Finished lines are kept."""
    _change(batch_id, cancel_batch, as_json)


def _change(batch_id: str, action: Callable[[Session, Batch], None], as_json: bool) -> None:
    settings = read_settings()
    with open_sessions(settings) as sessions:
        with sessions.begin() as session:
            batch = get_batch(session, batch_id, organisation_id=None)
            action(session, batch)
            state = str(batch.state)
        tell_batch_workers(settings, sessions)
    show_done({"batch_id": batch_id, "state": state}, as_json, f"Batch {batch_id} is now {state}.")


@batches.command("retry-failed")
@click.argument("batch_id")
@click.option("--all", "everything", is_flag=True, help="Include lines that failed because of their content.")
@code_option
@path_option
@json_option
def retry(batch_id: str, *, everything: bool, code: str | None, path: str | None, as_json: bool) -> None:
    """Retry the failed lines of the batch BATCH_ID that may succeed now.

    These are lines that failed because of infrastructure or the state of their account, and lines whose rules
    or profile have changed since. To correct lines that failed because of their content, see failed-lines.
    """
    settings = read_settings()
    with open_sessions(settings) as sessions:
        with sessions.begin() as session:
            batch = get_batch(session, batch_id, organisation_id=None)
            found = retry_failed(session, batch, ResultFilter(code=code, path=path), everything=everything)
        tell_batch_workers(settings, sessions)
    record = {"batch_id": batch_id, "retried": found.retried, "left": found.left}
    sentence = f"{count(found.retried, 'line')} of batch {batch_id} pending again."
    if found.left:
        sentence += (
            f" {count(found.left, 'line')} left as failed for the content: correct what `batches "
            f"failed-lines {batch_id}` writes and start it as a new batch."
            if code is None and path is None
            else f" {count(found.left, 'failed line')} left."
        )
    show_done(record, as_json, sentence)
