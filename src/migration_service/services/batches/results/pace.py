"""The pace of a batch: how fast it was, and in how much time the lines that are left may be done.

Nothing is sampled. Each chunk says when lines of it last got their outcome, and how many. The time between
two chunks counts as work. A much longer one is an outage or a pause, and counts only as the longest that is
usual, so that it neither slows the rate down for long nor makes what was measured before it worthless. This
is what a rate is everywhere: lines per second of the time in which the batch ran. While it runs, its last
part counts most, otherwise the whole run.

The time left is a range. It has the rates of the whole run, and of the last half, quarter and eighth of it.
It is the wider the more the rate changed from one eighth of the run to the next, and the fewer chunks there
were. `test_recorded_runs.py` compares it with what was true in recorded runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, floor, log, sqrt
from statistics import stdev

#: Before so many chunks, and so many seconds of work, nothing is said.
LEAST_CHUNKS, LEAST_SECONDS = 4, 5.0
#: The parts of the run, up to now, whose rates make the range.
_PARTS = (1.0, 0.5, 0.25, 0.125)
#: A part has at least so many chunks.
_PART_CHUNKS = 12
#: A gap counts as at most this many times as long as nine tenths of all gaps are, and seconds.
_LONGEST_GAP, _LEAST_CAP = 3.0, 3.0
#: The range is wider than the rates that were measured. As logarithms: by this much, by this for a single
#: chunk, which is less the more there are, and by this part of how much the rate changed. Then: at most so
#: many times.
_MARGIN, _FEW, _CHANGE, _MOST = 0.28, 0.5, 0.4, 1.6


@dataclass(frozen=True, slots=True)
class Work:
    """Lines of a chunk that got their outcome, and when: in seconds since any moment."""

    at: float
    lines: int


@dataclass(frozen=True, slots=True)
class Pace:
    """The lines per second of a batch, and the seconds that are left: probable, at best and at worst."""

    rate: float
    left: float
    low: float
    high: float


def measure_pace(
    work: Sequence[Work], *, since: float, now: float, pending: int, lines_per_minute: int | None = None
) -> Pace | None:
    """Return the pace of a batch that runs since `since`, or None if too little was seen.

    `work` is in the order of time. The first item only says when the others began. Lines that wait for an
    account are not `pending`.
    """
    gaps = [_gap(before.at, after.at, since) for before, after in pairwise(work)]
    if len(gaps) < LEAST_CHUNKS:
        return None
    longest = _find_longest(gaps, lines_per_minute)
    gaps = [min(gap, longest) for gap in gaps]
    open_gap = min(_gap(work[-1].at, now, since), longest)
    if sum(gaps) < LEAST_SECONDS:
        return None
    usual = sum(gaps) / len(gaps)
    # Of a chunk that is still worked on, a part is done. One that takes unusually long slows the rate down.
    late, ahead = max(0.0, open_gap - usual), min(open_gap, usual)
    lines = [item.lines for item in work[1:]]
    rates = [_rate(gaps, lines, late, max(_PART_CHUNKS, round(part * len(gaps)))) for part in _PARTS]
    if lines_per_minute is not None:
        rates = [min(rate, lines_per_minute / 60) for rate in rates]
    margin = min(_MOST, exp(_MARGIN + _FEW / sqrt(len(gaps)) + _CHANGE * _measure_change(gaps, lines)))
    rate = sqrt(rates[0] * rates[2])
    low, left, high = (max(0.0, pending / it - ahead) for it in (max(rates) * margin, rate, min(rates)))
    # The last chunks may wait that long for a worker, because other batches have theirs.
    return Pace(rate, left, low, high * margin + longest)


def measure_rate(work: Sequence[Work], lines_per_minute: int | None = None) -> float | None:
    """Return the lines per second of a whole run, which the first item begins. None: nothing was done."""
    gaps = [after.at - before.at for before, after in pairwise(work)]
    if not gaps:
        return None
    longest = _find_longest(gaps, lines_per_minute)
    return _rate([min(gap, longest) for gap in gaps], [item.lines for item in work[1:]], 0.0, len(gaps))


def _find_longest(gaps: Sequence[float], lines_per_minute: int | None) -> float:
    """Return as how many seconds a gap counts at most. The longest one of several never decides that."""
    least = _LEAST_CAP if lines_per_minute is None else 2 * limit_span(lines_per_minute)
    return max(least, _LONGEST_GAP * sorted(gaps)[int(0.9 * (len(gaps) - 1))])


def limit_span(lines_per_minute: int) -> float:
    """Return for how many seconds at a time the chunks of a batch with a limit are dispatched."""
    return max(10.0, 6000.0 / lines_per_minute)


def _measure_change(gaps: Sequence[float], lines: Sequence[int]) -> float:
    """Return the standard deviation of the logarithms of the rates of the eighths of a run."""
    size = max(_PART_CHUNKS // 2, ceil(len(gaps) / 8))
    eighths = [
        _rate(gaps[at : at + size], lines[at : at + size], 0.0, size) for at in range(0, len(gaps), size)
    ]
    return stdev(map(log, eighths)) if len(eighths) > 1 else 0.0


def round_range(low: float, high: float) -> tuple[float, float]:
    """Return a range of seconds, rounded outwards: to ten seconds if they are few, otherwise to minutes."""
    low_unit, high_unit = (60 if seconds > 90 else 10 for seconds in (low, high))
    return floor(low / low_unit) * low_unit, ceil(high / high_unit) * high_unit


def _gap(before: float, after: float, since: float) -> float:
    """Return the time between two outcomes, without that before the batch last began to run."""
    return max(0.0, after - (max(before, since) if since <= after else before))


def _rate(gaps: Sequence[float], lines: Sequence[int], late: float, last: int) -> float:
    """Return the lines per second of the last chunks, as many as `last`."""
    return sum(lines[-last:]) / max(0.001, sum(gaps[-last:]) + late)
