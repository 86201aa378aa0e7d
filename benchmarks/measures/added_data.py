"""Adding data to accounts that exist: by single requests, and by batches of the same bodies."""

from functools import partial

from benchmarks import probes
from benchmarks.bench import Bench, Row, alternate, compared_rates
from benchmarks.seed import set_up_vendor
from migration_service.states import BatchKind

_SINGLE = {
    BatchKind.NOTES: probes.add_notes,
    BatchKind.TRANSACTIONS: probes.add_transactions,
    BatchKind.STATEMENTS: probes.add_statements,
    BatchKind.PAYMENT_INSTRUCTIONS: probes.add_instructions,
}


def measure_added_data(bench: Bench) -> list[Row]:
    """Measure lines per second of a batch, beside requests per second, each with one new item."""
    set_up_vendor(bench.stack.settings, bench.stack.start_sandbox())
    return [_measure(bench, kind) for kind in _SINGLE]


def _measure(bench: Bench, kind: BatchKind) -> Row:
    # A vendor is asked about each line, at most at the rate that it has for all batches.
    asks = kind is BatchKind.PAYMENT_INSTRUCTIONS
    by_batch, by_request = alternate(
        max(2, bench.extent.rounds // 2),
        partial(probes.add_by_batch, bench, kind),
        partial(_SINGLE[kind], bench, bench.extent.seconds),
    )
    return compared_rates(
        f"add {kind} by batch",
        "lines/s",
        (by_batch, by_request),
        peer_name="single requests",
        goal="for information: up to 1,000, the vendor's rate" if asks else "at least 10 x single requests",
        needed=None if asks else 10.0,
    )
