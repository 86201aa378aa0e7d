"""A report as one HTML page to share or print, without scripts and without external resources."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from migration_payloads.moments import show_moment
from migration_service.services.batches.control import BatchReport
from migration_service.services.batches.error_thresholds import put_in_words
from migration_service.services.reconciliation.differences import NOT_COMPARED, is_amount
from migration_service.services.reconciliation.verdict import describe_problems
from migration_service.services.reporting.report import Rates, Report
from migration_service.services.waves.reports import WaveReport, describe_state
from migration_service.states import BatchSource, LineStatus, Weekday

#: The size of the chart in its own units. The page scales it.
_WIDTH, _HEIGHT = 720.0, 120.0
#: Statuses of lines that have an outcome without failing, and of lines without an outcome.
_DONE = [status for status in LineStatus if not status.is_open and status is not LineStatus.FAILED]
_OPEN = [status for status in LineStatus if status.is_open]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the chart."""

    x: float
    y: float
    width: float
    height: float
    #: The label of the bar.
    title: str


def render_report(report: Report, *, stylesheet: str | None = None) -> str:
    """Return the page. `stylesheet` is the address of `report.css`, or None to include it in the page."""
    return (
        _templates()
        .get_template("report.html")
        .render(
            report=report,
            not_compared=NOT_COMPARED,
            problems=describe_problems(report.verdict.problems),
            bars=_bars(report.rates) if report.rates else [],
            control={batch.batch_id: _control(batch, report) for batch, _ in report.batches},
            chart={"width": _WIDTH, "height": _HEIGHT},
            unit="accounts" if report.subject.batch_ids is None else "lines",
            stylesheet=stylesheet,
            inline_style=Markup(read_stylesheet()),  # noqa: S704  a file of this package
        )
    )


def read_stylesheet() -> str:
    """Return the stylesheet of the page."""
    return (files("migration_service.services.reporting") / "templates" / "report.css").read_text()


def _bars(rates: Rates) -> list[Bar]:
    most, step = max([*rates.done, 1]), _WIDTH / len(rates.done)
    return [
        Bar(
            x=round(index * step + 1, 1),
            y=round(_HEIGHT - _HEIGHT * number / most, 1),
            width=round(step - 2, 1),
            height=round(_HEIGHT * number / most, 1),
            title=f"{number:,} in {_duration(rates.width)}",
        )
        for index, number in enumerate(rates.done)
        if number
    ]


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("migration_service.services.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": _moment,
        "measured": _measured,
        "share": lambda part, whole: f"{100 * part / whole:.1f} %" if whole else "\N{EN DASH}",
        "title": _title,
        "number": _number,
        "duration": _duration,
        "words": lambda name: str(name).replace("_", " ").replace(".", " "),
        "details": _details,
        "threshold": _threshold,
        "state": describe_state,
        "window": _window,
        "done": lambda counts: sum(counts[status] for status in _DONE),
        "waiting": lambda counts: sum(counts[status] for status in _OPEN),
    }
    return environment


def _threshold(values: dict[str, Any]) -> str:
    words, contained = put_in_words(values)
    return words % contained


def _moment(moment: datetime | None) -> str:
    """Return a time that can only be wrapped between its date and its time of day."""
    if moment is None:
        return "\N{EN DASH}"
    date, time = show_moment(moment).split()[:2]
    return Markup("<time><span>{}</span> <span>{}</span></time>").format(date, time)


def _number(number: int | float | Decimal | None) -> str:
    if number is None:
        return "\N{EN DASH}"
    return f"{number:,.1f}" if isinstance(number, float) else f"{number:,}"


def _measured(value: Decimal | None, measure: str) -> str:
    """Return the value of a measure as text. Amounts have cents, and any fractions of a cent."""
    if value is None or not is_amount(measure):
        return _number(value)
    exponent = Decimal(value).normalize().as_tuple().exponent
    digits = max(2, -exponent if isinstance(exponent, int) else 2)
    return f"{value:,.{digits}f}"


def _title(batch: BatchReport) -> str:
    """Return the title of a batch for people."""
    if batch.name or batch.file_name:
        return str(batch.name or batch.file_name)
    what = "pending accounts" if batch.source == BatchSource.PENDING else batch.kind
    return f"{batch.mode} of {what}, {batch.created_at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _control(batch: BatchReport, report: Report) -> str:
    """Return a text that says whether a file matches its control totals."""
    book = report.verdict.book
    files = {it.batch_id: it for it in book.files} if book else {}
    source = files.get(batch.batch_id, batch)
    if source.control_totals_differing is None:
        return "not given"
    if source.control_totals_differing:
        again = ", sent again" if getattr(source, "is_superseded", False) else ""
        return f"{source.control_totals_differing} differ{again}"
    return "as in the file" if source.control_totals_as_given else "as far as the file can be read"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _window(wave: WaveReport) -> str:
    """Return the window of a wave as text, or how the wave starts without one."""
    window = wave.window
    if window is None:
        return "by hand" if wave.number == 1 else "after the previous wave"
    every_day = len(window["days"]) == len(Weekday)
    days = "every day" if every_day else ", ".join(window["days"])
    return f"{window['start']} to {window['end']} {window['time_zone']}, {days}, from {window['first_day']}"


def _details(details: Mapping[str, Any] | None) -> str:
    """Return the non-empty details of an audit entry as text."""
    shown = (
        f"{name.replace('_', ' ')}: {value if isinstance(value, str | int) else json.dumps(value)}"
        for name, value in (details or {}).items()
        if value not in (None, "", [], {})
    )
    return "; ".join(shown)
