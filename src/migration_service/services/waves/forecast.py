"""A forecast of the end of each wave, from the measured rates of the supplier's rehearsal and imports.

Two runs of the same book differ in their rates by a factor, for example because other work ran beside one of
them. So the rates are averaged as logarithms, each with the more weight the longer and the more like a wave
its run was. The forecast is two times: half of all waves end by the one, nine of ten by the other. They are
further apart if there are few measurements, or if these differ. `test_reports.py` compares them with the
actual times of recorded books.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from math import exp, log, sqrt
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import Batch, BatchChunk, Wave
from migration_service.services.batches import clock
from migration_service.services.batches.results.counts import list_work
from migration_service.services.batches.results.pace import Work, measure_rate
from migration_service.services.waves.windows import Window, next_opening
from migration_service.states import BatchKind, BatchMode

#: The standard normal quantile below which nine of ten values are.
_NINE_OF_TEN = 1.2816
#: The variances of the logarithm of a rate: between two runs of a book, of a run of a single chunk (less if
#: there are more), for each newer import, and between a rehearsal and an import.
_BETWEEN_RUNS, _FEW, _OLDER, _REHEARSAL = 0.04, 0.25, 0.04, 0.15
#: How much faster a wave is than a rehearsal, which also validates the lines and rolls back. In the ten
#: recorded books it was between 1.0 and 3.5 times as fast, on average 2.2 times.
_FASTER = 2.0
#: A run this close to its own limit of lines per minute says nothing about a wave without it.
_AT_LIMIT = 0.8
#: The newest imports that are considered, and the seconds that a sweep may take to start a wave.
_IMPORTS, _START = 3, 5.0
#: The openings of a window after which a wave counts as endless.
_MOST_OPENINGS = 366


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """The lines per second of a wave by one run, the chunks that it was measured with, and what it was."""

    rate: float
    chunks: int
    #: The number of newer imports.
    age: int = 0
    is_rehearsal: bool = False
    lines_per_minute: int | None = None

    @classmethod
    def of(
        cls,
        work: Sequence[Work],
        *,
        age: int = 0,
        is_rehearsal: bool = False,
        lines_per_minute: int | None = None,
    ) -> "MeasuredRun | None":
        """Return the run with this work, whose first item only marks the start. None if nothing was done."""
        rate = measure_rate(work, lines_per_minute)
        if not rate:
            return None
        faster = _FASTER if is_rehearsal else 1.0
        return cls(rate * faster, len(work) - 1, age, is_rehearsal, lines_per_minute)

    @property
    def variance(self) -> float:
        """Return how far the logarithm of the rate of the next wave may be from this one."""
        kind = _REHEARSAL if self.is_rehearsal else self.age * _OLDER
        return _BETWEEN_RUNS + _FEW / self.chunks + kind

    def is_held_back(self, lines_per_minute: int | None) -> bool:
        """Return whether its own limit determined its rate, and a wave with this limit may be faster."""
        limit = self.lines_per_minute
        if limit is None or self.rate <= _AT_LIMIT * limit / 60:
            return False
        return lines_per_minute is None or lines_per_minute > limit


@dataclass(frozen=True, slots=True)
class Seconds:
    """The running time of a wave that half of all waves do not exceed, and that nine of ten do not."""

    half: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When a wave ends, with both probabilities, and whether it probably ends within one opening."""

    seconds_50: float
    seconds_90: float
    #: None if its window does not open often enough.
    ends_at_50: datetime | None
    ends_at_90: datetime | None
    #: None for a wave without a window.
    fits_window: bool | None


def estimate_seconds(
    runs: Sequence[MeasuredRun], lines: int, lines_per_minute: int | None = None
) -> Seconds | None:
    """Return the running time of a wave of so many lines, or None if nothing was measured."""
    free = [run for run in runs if not run.is_held_back(lines_per_minute)] or runs
    if not free:
        return None
    weights = [1 / run.variance for run in free]
    total = sum(weights)
    mean = sum(weight * log(run.rate) for weight, run in zip(weights, free, strict=True)) / total
    spread = sum(w * (log(run.rate) - mean) ** 2 for w, run in zip(weights, free, strict=True)) / total
    factor = exp(_NINE_OF_TEN * sqrt(1 / total + _BETWEEN_RUNS + spread))
    rates = (exp(mean), exp(mean) / factor)
    if lines_per_minute is not None:
        rates = (min(rates[0], lines_per_minute / 60), min(rates[1], lines_per_minute / 60))
    return Seconds(lines / rates[0], lines / rates[1] + _START)


def read_runs(session: Session, import_supplier_id: int) -> list[MeasuredRun]:
    """Return the newest imports of accounts of a supplier, and its newest rehearsal, as far as measured."""
    worked = select(BatchChunk.batch_id).where(BatchChunk.batch_id == Batch.id, BatchChunk.worked > 0)
    batches = (
        select(Batch.id, Batch.lines_per_minute)
        .where(
            Batch.import_supplier_id == import_supplier_id,
            Batch.kind == BatchKind.ACCOUNTS,
            Batch.started_at.is_not(None),
            worked.exists(),
        )
        .order_by(Batch.started_at.desc())
    )
    found = []
    for mode, most in ((BatchMode.IMPORT, _IMPORTS), (BatchMode.DRY_RUN, 1)):
        rows = session.execute(batches.where(Batch.mode == mode).limit(most)).all()
        is_rehearsal = mode is BatchMode.DRY_RUN
        for age, (batch_id, limit) in enumerate(rows):
            work = list_work(session, batch_id)
            found.append(MeasuredRun.of(work, age=age, is_rehearsal=is_rehearsal, lines_per_minute=limit))
    return [run for run in found if run is not None]


def forecast_end(
    seconds: Seconds, time_window: Mapping[str, Any] | None, starts: tuple[datetime, datetime]
) -> Forecast:
    """Return when a wave ends that may run from these moments on, one for each probability."""
    window = Window.from_dict(dict(time_window)) if time_window else None
    half, _fits = _find_end(window, starts[0], seconds.half)
    most, fits = _find_end(window, starts[1], seconds.most)
    return Forecast(
        seconds_50=round(seconds.half, 1),
        seconds_90=round(seconds.most, 1),
        ends_at_50=half,
        ends_at_90=most,
        fits_window=fits if window else None,
    )


def forecast_start(
    session: Session, import_supplier_id: int, wave: Wave, batch: Batch
) -> dict[str, Any] | None:
    """Return the stored form of the forecast of a wave that starts now."""
    seconds = estimate_seconds(read_runs(session, import_supplier_id), batch.lines, batch.lines_per_minute)
    now = clock.read_clock(session)
    if seconds is None:
        return None
    stored: dict[str, Any] = msgspec.to_builtins(forecast_end(seconds, wave.time_window, (now, now)))
    return stored


def read_forecast(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the members of a stored forecast, or none."""
    return asdict(msgspec.convert(stored, Forecast)) if stored else {}


def _find_end(window: Window | None, at: datetime, seconds: float) -> tuple[datetime | None, bool]:
    """Return when so many seconds of running time are over, and whether that is in the first opening."""
    if window is None:
        return at + timedelta(seconds=seconds), True
    for number in range(_MOST_OPENINGS):
        opening = next_opening(window, at)
        if opening is None:
            break
        at = max(at, opening.opens_at)
        room = (opening.closes_at - at).total_seconds()
        if seconds <= room:
            return at + timedelta(seconds=seconds), number == 0
        seconds, at = seconds - room, opening.closes_at
    return None, False
