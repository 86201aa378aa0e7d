"""The live progress of a batch on a terminal: a bar, the rate, the time left, and failures by code."""

import time

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.batches.steering import BatchReport, get_batch, report_batch
from migration_service.states import BatchState, LineStatus

_INTERVAL = 1.0
_CODES_SHOWN = 10
_OVER = (BatchState.COMPLETED, BatchState.CANCELLED, BatchState.STOPPED)


def watch_batch(sessions: sessionmaker[Session], batch_id: str, *, quiet: bool) -> BatchReport:
    """Show the progress on standard error until the batch ends, and return its last report.

    `quiet` only waits. If standard error is not a terminal, a line is printed every ten seconds.
    """
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        return _log(sessions, batch_id, console)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            report = _report(sessions, batch_id)
            live.update(_draw(report), refresh=True)
            if report.state in _OVER:
                return report
            time.sleep(_INTERVAL)


def _log(sessions: sessionmaker[Session], batch_id: str, console: Console) -> BatchReport:
    next_line = 0.0
    while (report := _report(sessions, batch_id)).state not in _OVER:
        if time.monotonic() >= next_line:
            console.print(_headline(report))
            next_line = time.monotonic() + 10
        time.sleep(_INTERVAL)
    return report


def _report(sessions: sessionmaker[Session], batch_id: str) -> BatchReport:
    with sessions.begin() as session:
        return report_batch(session, get_batch(session, batch_id, organisation_id=None))


def _headline(report: BatchReport) -> Text:
    done = report.lines - report.counts[LineStatus.PENDING]
    parts = [report.state + (f" ({report.reason})" if report.reason else ""), f"{done}/{report.lines} lines"]
    parts += [f"{report.counts[LineStatus.FAILED]} failed"]
    if report.rate:
        parts.append(f"{report.rate:.0f} lines/s")
    if report.time_left is not None:
        minutes, seconds = divmod(round(report.time_left), 60)
        parts.append(f"{minutes}:{seconds:02} left")
    return Text(", ".join(parts))


def _draw(report: BatchReport) -> Group:
    done = report.lines - report.counts[LineStatus.PENDING]
    codes = Table.grid(padding=(0, 2))
    for code, number in list((report.error_counts or {}).items())[:_CODES_SHOWN]:
        codes.add_row(str(number), code)
    return Group(ProgressBar(total=max(report.lines, 1), completed=done), _headline(report), codes)
