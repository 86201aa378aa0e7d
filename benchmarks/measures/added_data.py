"""Adding data to accounts that exist: rates for information."""

from statistics import median

from benchmarks import probes
from benchmarks.bench import Bench, Row


def measure_added_data(bench: Bench) -> list[Row]:
    """Measure requests per second, each with one new note or one new transaction."""
    rows = []
    for what, probe in (("add a note", probes.add_notes), ("add a transaction", probes.add_transactions)):
        readings = [probe(bench, bench.extent.seconds) for _ in range(max(2, bench.extent.rounds // 2))]
        rate = median(reading.rate for reading in readings)
        rows.append(Row(what, rate, "requests/s", "", None, readings=readings))
    return rows
