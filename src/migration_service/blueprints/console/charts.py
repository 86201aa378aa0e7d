"""Charts of the console: what the templates of `charts.html` draw as SVG, in shares of the width and height.

Nothing depends on colour alone: each chart has a text alternative, and its numbers are in a table beside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil

from migration_service.services.batches.results.pace import Work
from migration_service.services.reporting.report import Rehearsal
from migration_service.services.waves.reports import WaveReport
from migration_service.states import BatchState

#: The most columns of a chart of the rate.
_COLUMNS = 60
#: The most codes of a trend.
_CODES = 8
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class RateColumn:
    """A period of a batch with its lines per second: 0 if nothing was done in it."""

    since: datetime
    rate: float
    failed: float


@dataclass(frozen=True, slots=True)
class RateChart:
    """The rate of a batch over its run, and the share of failed lines at which it is paused."""

    columns: list[RateColumn]
    until: datetime
    highest: float
    #: A share from 0 to 1, or None if a number of lines pauses it, or nothing does.
    threshold: float | None


def draw_rate(
    done: Sequence[Work], state: BatchState, now: datetime, brake: Mapping[str, object] | None
) -> RateChart | None:
    """Return the rate of a batch, or None if too little has been done to show."""
    if len(done) < 3:
        return None
    first = done[0].at
    last = max(done[-1].at, now.timestamp()) if state == BatchState.RUNNING else done[-1].at
    number = min(_COLUMNS, len(done) - 1)
    seconds = (last - first) / number
    if seconds <= 0:
        return None
    lines, failed = [0.0] * number, [0.0] * number
    for before, after in pairwise(done):
        # What was done together is spread over the time since what was done before, but over no pause. If
        # others were done at the same moment, that is a thousandth of a column.
        begin = min(max(before.at, after.at - 2 * seconds), after.at - seconds / 1_000)
        for place in range(int((begin - first) / seconds), min(number, ceil((after.at - first) / seconds))):
            start, end = first + place * seconds, first + (place + 1) * seconds
            share = (min(end, after.at) - max(start, begin)) / (after.at - begin)
            lines[place] += share * after.lines
            failed[place] += share * min(after.failed, after.lines)
    columns = [
        RateColumn(_moment(first + place * seconds), done_here / seconds, failed_here / seconds)
        for place, (done_here, failed_here) in enumerate(zip(lines, failed, strict=True))
    ]
    pauses_at = str((brake or {}).get("stop_after_errors", ""))
    threshold = float(pauses_at[:-1]) / 100 if pauses_at.endswith("%") else None
    return RateChart(columns, _moment(last), max(it.rate for it in columns), threshold)


def draw_codes(rehearsals: Sequence[Rehearsal]) -> list[tuple[str, list[int]]]:
    """Return the commonest codes of all rehearsals, each with its number of lines in each of them."""
    counts = [Counter(dict(it.codes)) for it in rehearsals]
    commonest = sum(counts, Counter[str]()).most_common(_CODES)
    return [(code, [it[code] for it in counts]) for code, _lines in commonest]


@dataclass(frozen=True, slots=True)
class Lane:
    """A wave on the timeline. Each place is a share of the width, with its width if it has one."""

    wave: WaveReport
    window: tuple[float, float] | None
    run: tuple[float, float] | None
    #: When it will probably have ended: from a moment as likely as not to one that is nearly certain.
    forecast: tuple[float, float] | None
    decision: float | None
    initials: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lanes of the waves of a plan, from `since` to `until`."""

    lanes: list[Lane]
    since: datetime
    until: datetime
    now: float | None


def draw_timeline(waves: Sequence[WaveReport], now: datetime) -> Timeline | None:
    """Return the timeline of waves, or None if no wave has begun and none has a window."""
    ends = {wave.number: _end_of_run(wave, now) for wave in waves}
    moments = [
        it
        for wave in waves
        for it in (
            *(wave.began_at, ends[wave.number], wave.decided_at, wave.opens_at, wave.closes_at),
            None if wave.ended_at or wave.is_over else wave.ends_at_90,
        )
        if it is not None
    ]
    if not moments:
        return None
    since, until = min(moments), max(moments)
    width = max(until - since, 10 * _MINUTE)

    def place(at: datetime) -> float:
        return (at - since) / width

    def span(begin: datetime | None, end: datetime | None) -> tuple[float, float] | None:
        if begin is None or end is None:
            return None
        return place(begin), max((end - begin) / width, 0.004)

    lanes = [
        Lane(
            wave,
            span(wave.opens_at, wave.closes_at),
            span(wave.began_at, ends[wave.number]),
            None if wave.ended_at or wave.is_over else span(wave.ends_at_50, wave.ends_at_90),
            place(wave.decided_at) if wave.decided_at else None,
            "".join(it[0] for it in (wave.decided_by or "").split()[:2]).upper(),
        )
        for wave in waves
    ]
    return Timeline(lanes, since, since + width, place(now) if since <= now <= since + width else None)


def _end_of_run(wave: WaveReport, now: datetime) -> datetime | None:
    if wave.began_at is None:
        return None
    return wave.reconciled_at or (now if not wave.is_over else wave.decided_at or wave.began_at)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
