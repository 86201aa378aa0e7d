"""The live progress of a batch on a terminal: a bar, the rate, the time left, and failures by code."""

import time

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.batches.counts import count_open
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED
from migration_service.services.batches.steering import BatchReport, get_batch, report_batch
from migration_service.states import BatchCondition, BatchState, LineStatus

_INTERVAL = 1.0
_CODES_SHOWN = 10
_OVER = (BatchState.COMPLETED, BatchState.CANCELLED, BatchState.STOPPED)


#: What people are told of a condition.
CONDITIONS = {
    BatchCondition.STALLED: "no line was worked on for a minute. Ask doctor whether a worker takes the queue "
    "batch.",
    BatchCondition.THROTTLED: "lines wait for slots, which requests or other batches hold. See limit show.",
}


#: What people are told of a batch that its brake paused.
BRAKED = "too many errors: see the codes, then resume or cancel it"


def duration(seconds: float) -> str:
    """Return a duration in the unit that suits it: `40 s`, `4 min`, `2 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def watch_batch(sessions: sessionmaker[Session], batch_id: str, *, quiet: bool) -> BatchReport:
    """Show the progress on standard error until the batch is over or its brake pauses it.

    Return its last report.

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
    """Return whether the batch does not go on without a person. A script must not wait for one."""
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
    if report.time_left is not None:
        parts.append(f"{duration(report.time_left)} left")
    if report.condition is not None:
        parts.append(f"{report.condition}: {CONDITIONS[report.condition]}")
    if report.reason == ERROR_THRESHOLD_REACHED:
        parts.append(BRAKED)
    return Text(", ".join(parts))


def _draw(report: BatchReport) -> Group:
    done = report.lines - count_open(report.counts)
    codes = Table.grid(padding=(0, 2))
    for code, number in list((report.error_counts or {}).items())[:_CODES_SHOWN]:
        codes.add_row(str(number), code)
    return Group(ProgressBar(total=max(report.lines, 1), completed=done), _headline(report), codes)
