"""Staging and processing with a million accounts, and with few: two stacks, measured in turn.

The two differ in their rows only. The processes of both have just been started, because those of a service
that has worked have more threads and connections. Both have just written a checkpoint, because the first
change of a page after one is logged with the whole page.
"""

from collections.abc import Callable
from statistics import median

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate
from benchmarks.prepare import running_bench
from benchmarks.seed import empty_tables, vacuum, write_checkpoint

_GOAL = 1.10
#: Accounts that are imported together to fill the tables.
_PORTION = 50_000
#: A client's requests vary more than what is looked for.
_FEWEST_ROUNDS = 5


def measure_growth(bench: Bench) -> list[Row]:
    """Measure the time of one client's request with many accounts, compared with few."""
    empty_tables(bench.stack.settings, bench.templates)
    for _ in range(0, bench.extent.filled, _PORTION):
        probes.import_staged(bench, _PORTION)
    vacuum(bench.stack.superuser_url())
    bench.stack.stop_service()
    bench.stack.start_service()
    rows = []
    with running_bench(bench.extent, len(bench.texts)) as few:
        for each in (bench, few):
            write_checkpoint(each.stack.superuser_url())
        for what, probe in (("stage", probes.stage_one), ("process", probes.process_one)):
            rows.append(_compare(what, bench, few, probe))
    return rows


def _compare(what: str, many: Bench, few: Bench, probe: Callable[[Bench, float], Reading]) -> Row:
    seconds = many.extent.seconds / 2
    for bench in (many, few):
        probe(bench, 1)
    rounds = max(_FEWEST_ROUNDS, many.extent.rounds)
    large, small = alternate(rounds, lambda: probe(many, seconds), lambda: probe(few, seconds))
    return _row(what, many.extent.filled, large, small)


def _row(what: str, filled: int, large: list[Reading], small: list[Reading]) -> Row:
    times = [[reading.p50_ms or 0.0 for reading in readings] for readings in (large, small)]
    ratio = median(one / other for one, other in zip(*times, strict=True))
    return Row(
        f"{what} with {filled:,} accounts there",
        median(times[0]),
        "ms",
        f"at most {_GOAL:.2f} x with few",
        ratio <= _GOAL,
        median(times[1]),
        "the same with few accounts",
        large,
        small,
        {"ratio": ratio},
    )
