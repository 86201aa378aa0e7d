"""The live progress of a batch on a terminal: a bar, the rate, the time left, and failures by code."""

import time
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.cli.output import count
from migration_service.errors import PaymentVendorUnavailableError
from migration_service.services.batches.control import BatchReport, get_batch, report_batch
from migration_service.services.batches.results.counts import count_open
from migration_service.services.batches.results.pace import round_range
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED
from migration_service.states import BatchCondition, BatchKind, BatchState, LineStatus

_INTERVAL = 1.0
_CODES_SHOWN = 10
_OVER = (BatchState.COMPLETED, BatchState.CANCELLED, BatchState.STOPPED)


_CONDITIONS = {
    BatchCondition.STALLED: "no line has been processed for a minute. Run doctor to see whether a worker "
    "takes the queue {queue}.",
    BatchCondition.STARVING: "its workers spend most of their time waiting for a processor. The machine is "
    "busy with other work.",
    BatchCondition.THROTTLED: "its lines wait for slots. Requests, other batches or a worker that was killed "
    "hold them. See limit show.",
}


#: Shown for a batch that reached its error threshold.
BRAKED = "too many errors: look at the codes, then resume or cancel it"


def describe_condition(report: BatchReport) -> str | None:
    """Return why a batch makes little or no progress, for people. None if it makes progress."""
    if report.condition is None:
        return None
    if report.condition is BatchCondition.DEFERRED:
        return f"{report.condition}: {_describe_waiting(report)}"
    why = _CONDITIONS[report.condition].format(queue=BatchKind(report.kind).queue)
    return f"{report.condition}: {why}"


def _describe_waiting(report: BatchReport) -> str:
    deferred = report.counts[LineStatus.DEFERRED]
    who = ["vendor " + ", ".join(report.waits_for_vendors)] if report.waits_for_vendors else []
    if (report.warning_counts or {}).get(PaymentVendorUnavailableError.code, 0) < deferred:
        who.append("an account")
    then = f"next try at {report.next_try_at:%H:%M} UTC" if report.next_try_at else "being tried right now"
    return f"{count(deferred, 'line')} deferred, waiting for {' or '.join(who)}, {then}"


def duration(seconds: float) -> str:
    """Return a duration in the unit that suits it: `40 s`, `4 min`, `2 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def duration_range(low: float, high: float) -> str:
    """Return a range of durations, rounded outwards: `40 to 70 s`, `4 to 6 min`, `50 s to 3 min`."""
    low, high = round_range(low, high)
    if high < 100:
        return f"{low:.0f} to {high:.0f} s"
    if low >= 60 and high < 100 * 60:
        return f"{low / 60:.0f} to {high / 60:.0f} min"
    return f"{duration(low)} to {duration(high)}"


def describe_time_left(report: BatchReport) -> str | None:
    """Return how long a running batch may take, or None if it is not running or has stalled."""
    if report.state != BatchState.RUNNING or report.condition is BatchCondition.STALLED:
        return None
    if report.time_left_low is None or report.time_left_high is None:
        return "not known yet" if report.counts[LineStatus.PENDING] else None
    text = duration_range(report.time_left_low, report.time_left_high)
    if report.runs_until:
        open_for = (report.runs_until - datetime.now(UTC)).total_seconds()
        if report.time_left_high > open_for:
            sure = "" if report.time_left_low > open_for else "possibly "
            text += f", {sure}more than until its window closes at {report.runs_until:%H:%M} UTC"
    return text


def watch_batch(sessions: sessionmaker[Session], batch_id: str, *, quiet: bool) -> BatchReport:
    """Show the progress on standard error until the batch ends or is paused for too many errors.

    Return its last report. With `quiet`, show nothing. If standard error is not a terminal, print a line
    every ten seconds instead.

    `quiet` only waits. If standard error is no terminal, a line is printed every ten seconds.
    """
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        return _log(sessions, batch_id, console)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            report = _report(sessions, batch_id)
            live.update(_draw(report), refresh=True)
            if _has_ended(report):
                return report
            time.sleep(_INTERVAL)


def _log(sessions: sessionmaker[Session], batch_id: str, console: Console) -> BatchReport:
    next_line = 0.0
    while not _has_ended(report := _report(sessions, batch_id)):
        if time.monotonic() >= next_line:
            console.print(_headline(report))
            next_line = time.monotonic() + 10
        time.sleep(_INTERVAL)
    return report


def _has_ended(report: BatchReport) -> bool:
    """Return whether the batch has ended or needs a person to resume it. A script must not wait for that."""
    return report.state in _OVER or report.reason == ERROR_THRESHOLD_REACHED


def _report(sessions: sessionmaker[Session], batch_id: str) -> BatchReport:
    with sessions.begin() as session:
        return report_batch(session, get_batch(session, batch_id, organisation_id=None))


def _headline(report: BatchReport) -> Text:
    done = report.lines - count_open(report.counts)
    parts = [report.state + (f" ({report.reason})" if report.reason else ""), f"{done}/{report.lines} lines"]
    parts += [f"{report.counts[LineStatus.FAILED]} failed"]
    if report.rate:
        parts.append(f"{report.rate:.1f} lines/s")
    if left := describe_time_left(report):
        parts.append(f"time left {left}")
    if report.condition is not None:
        parts.append(str(describe_condition(report)))
    if report.reason == ERROR_THRESHOLD_REACHED:
        parts.append(BRAKED)
    return Text(", ".join(parts))


def _draw(report: BatchReport) -> Table:
    done = report.lines - count_open(report.counts)
    codes = Table.grid(padding=(0, 2))
    for code, number in list((report.error_counts or {}).items())[:_CODES_SHOWN]:
        codes.add_row(str(number), code)
    # Each gets a row: a bar does not end its line, so text after it would be cut off.
    rows = Table.grid(expand=True)
    for row in (ProgressBar(total=max(report.lines, 1), completed=done), _headline(report), codes):
        rows.add_row(row)
    return rows
