"""Adding data to accounts that exist: by single requests, and by batches of the same bodies."""

from functools import partial

from benchmarks import probes
from benchmarks.bench import Bench, Row, alternate, compared_rates
from migration_service.states import BatchKind

_SINGLE = {
    BatchKind.NOTES: probes.add_notes,
    BatchKind.TRANSACTIONS: probes.add_transactions,
    BatchKind.STATEMENTS: probes.add_statements,
}


def measure_added_data(bench: Bench) -> list[Row]:
    """Measure lines per second of a batch, beside requests per second, each with one new item."""
    rows = []
    for kind, single in _SINGLE.items():
        by_batch, by_request = alternate(
            max(2, bench.extent.rounds // 2),
            partial(probes.add_by_batch, bench, kind),
            partial(single, bench, bench.extent.seconds),
        )
        rows.append(
            compared_rates(
                f"add {kind} by batch",
                "lines/s",
                (by_batch, by_request),
                peer_name="single requests",
                goal="at least 10 x single requests",
                needed=10.0,
            )
        )
    return rows
