"""Staging and processing while there are few accounts, and while there are a million."""

from statistics import median

from benchmarks.bench import STAGE, Bench, Row
from benchmarks.seed import empty_tables, fill_accounts


def measure_growth(bench: Bench) -> list[Row]:
    """Measure the time of one client's request with many accounts, compared with few."""
    empty_tables(bench.stack.settings, bench.templates)
    few = _times(bench)
    fill_accounts(bench.stack.superuser_url(), bench.extent.filled)
    many = _times(bench)
    rows = []
    for what, before, after in zip(("stage", "process"), few, many, strict=True):
        rows.append(
            Row(
                f"{what} with {bench.extent.filled:,} accounts there",
                median(after),
                "ms",
                "at most 1.15 x with a thousand",
                median(after) <= 1.15 * median(before),
                median(before),
                "the same with few accounts",
                {"ratio": median(after) / median(before), "ours": after, "peer": before},
            )
        )
    return rows


def _times(bench: Bench) -> tuple[list[float], list[float]]:
    seconds = bench.extent.seconds / 2
    bench.stage(bench.url + STAGE, seconds=1, clients=1)
    stage, process = [], []
    for _ in range(bench.extent.rounds):
        stage.append(bench.stage(bench.url + STAGE, seconds=seconds, clients=1).p50_ms)
        process.append(bench.process(seconds=seconds, clients=1, expected_rate=400).p50_ms)
    return stage, process
