"""The pace of a batch: its rate so far, and an estimate of the time for the remaining lines.

Nothing is sampled. Each chunk records when its lines last got their outcome, and how many did. The time
between two chunks counts as work. A much longer gap is an outage or a pause: it counts only as the longest
usual gap, so that it neither depresses the rate for long nor invalidates earlier measurements. A rate is
always lines per second of running time. While a batch runs, its most recent part counts most; afterwards the
whole run counts equally.

The time left is a range. It covers the rates of the whole run and of its last half, quarter and eighth. The
range is wider if the rate varied between the eighths of the run, or if there were few chunks.
`test_recorded_runs.py` compares it with the actual times of recorded runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, floor, log, sqrt
from statistics import stdev

#: The least numbers of chunks and of seconds of work for an estimate.
LEAST_CHUNKS, LEAST_SECONDS = 4, 5.0
#: The most recent parts of the run whose rates form the range.
_PARTS = (1.0, 0.5, 0.25, 0.125)
#: The least number of chunks in a part.
_PART_CHUNKS = 12
#: The longest gap that counts: this multiple of the 90th percentile of all gaps, or this many seconds if that
#: is more.
_LONGEST_GAP, _LEAST_CAP = 3.0, 3.0
#: The factors by which the range is wider than the measured rates. In logarithms: a constant, an amount for a
#: single chunk (less if there are more), and a share of the variation of the rate. Finally, the largest
#: factor.
_MARGIN, _FEW, _CHANGE, _MOST = 0.28, 0.5, 0.4, 1.6


@dataclass(frozen=True, slots=True)
class Work:
    """The lines of a chunk that got their outcome, and when, in seconds since an arbitrary time."""

    at: float
    lines: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """The lines per second of a batch, and the seconds left: probable, at best and at worst."""

    rate: float
    left: float
    low: float
    high: float


def measure_pace(
    work: Sequence[Work], *, since: float, now: float, pending: int, lines_per_minute: int | None = None
) -> Pace | None:
    """Return the pace of a batch that has run since `since`, or None if too little has been measured.

    `work` is in chronological order. Its first item only marks the start. `pending` does not include lines
    that wait for an account.
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
    # A chunk in progress is partly done. A chunk that takes unusually long lowers the rate.
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
    """Return the lines per second of a run, which starts at the first item. None if nothing was done."""
    gaps = [after.at - before.at for before, after in pairwise(work)]
    if not gaps:
        return None
    longest = _find_longest(gaps, lines_per_minute)
    return _rate([min(gap, longest) for gap in gaps], [item.lines for item in work[1:]], 0.0, len(gaps))


def _find_longest(gaps: Sequence[float], lines_per_minute: int | None) -> float:
    """Return the longest gap that counts, in seconds. The longest of several gaps never determines it."""
    # The chunks of a rate-limited batch are dispatched for ten seconds, or for the time of one chunk.
    least = _LEAST_CAP if lines_per_minute is None else 2 * max(10.0, 6000.0 / lines_per_minute)
    return max(least, _LONGEST_GAP * sorted(gaps)[int(0.9 * (len(gaps) - 1))])


def _measure_change(gaps: Sequence[float], lines: Sequence[int]) -> float:
    """Return the standard deviation of the logarithms of the rates of the eighths of a run."""
    size = max(_PART_CHUNKS // 2, ceil(len(gaps) / 8))
    eighths = [
        _rate(gaps[at : at + size], lines[at : at + size], 0.0, size) for at in range(0, len(gaps), size)
    ]
    return stdev(map(log, eighths)) if len(eighths) > 1 else 0.0


def round_range(low: float, high: float) -> tuple[float, float]:
    """Return a range of seconds, rounded outwards to ten seconds if it is short, otherwise to minutes."""
    low_unit, high_unit = (60 if seconds > 90 else 10 for seconds in (low, high))
    return floor(low / low_unit) * low_unit, ceil(high / high_unit) * high_unit


def _gap(before: float, after: float, since: float) -> float:
    """Return the time between two outcomes, excluding any time before the batch was last resumed."""
    return max(0.0, after - (max(before, since) if since <= after else before))


def _rate(gaps: Sequence[float], lines: Sequence[int], late: float, last: int) -> float:
    """Return the lines per second of the last chunks, as many as `last`."""
    return sum(lines[-last:]) / max(0.001, sum(gaps[-last:]) + late)
