"""Batch work: validation on one core, the whole import against dlt (peer c) and plain COPY (peer d), and its
reconciliation.
"""

import time
from statistics import median

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates
from benchmarks.copy_limit import CopyLimit
from benchmarks.costs import metered
from benchmarks.payloads import SUPPLIER
from migration_service.services.reconciliation.book_totals import count_book
from migration_service.services.reconciliation.created_accounts import find_differences
from migration_service.services.reconciliation.differences import Totals
from migration_service.services.reconciliation.submitted import count_submitted
from migration_service.services.setup.suppliers import get_import_supplier


def measure_checking(bench: Bench) -> Row:
    """Measure the payloads per second that one process parses and validates."""
    probes.check_lines(bench, 0)
    mine = [probes.check_lines(bench, 0) for _ in range(bench.extent.rounds)]
    rate = median(reading.rate for reading in mine)
    goal = "at least 2,000"
    return Row("batch validate, one core", rate, "accounts/s", goal, rate >= 2_000, readings=mine)


def measure_import(bench: Bench) -> list[Row]:
    """Measure created accounts per second from NDJSON, compared with dlt and with COPY of the same rows."""
    count = bench.extent.batch
    limit = CopyLimit(bench.stack)
    first = bench.take_numbers(count)
    probes.import_batch(bench, first, count)
    limit.take_rows(first, count)
    _dlt(bench, 200)  # creates its tables
    mine, c, d = alternate(
        max(2, bench.extent.rounds // 2),
        lambda: probes.import_accounts(bench, 0),
        lambda: _dlt(bench, count),
        limit.copy,
    )
    what, unit = "batch import", "accounts/s"
    copy = "d: plain COPY of the same rows"
    return [
        compared_rates(what, unit, (mine, c), peer_name="c: dlt", goal="at least 2.5 x peer c", needed=2.5),
        compared_rates(
            what, unit, (mine, d), peer_name=copy, goal="at least a quarter of peer d", needed=0.25
        ),
    ]


def _dlt(bench: Bench, count: int) -> Reading:
    file = bench.folder / "payloads-for-dlt.ndjson"
    file.write_text("\n".join(probes.lines_of(bench, bench.take_numbers(count), count)) + "\n")
    with metered(bench.stack) as meter:
        result = bench.peer(
            "load_with_dlt.py", str(file), bench.stack.settings.owner_database_url, "peer_dlt"
        )
    return Reading(count, count / result["seconds"], costs=meter.of_one(count))


def measure_reconciliation(bench: Bench) -> Row:
    """Measure the accounts per second that a reconciliation compares, as the command does it."""
    probes.import_batch(bench, bench.take_numbers(bench.extent.batch), bench.extent.batch)
    mine = [_reconcile(bench) for _ in range(bench.extent.rounds)]
    rate = median(reading.rate for reading in mine)
    return Row("reconcile", rate, "accounts/s", "at least 2,000", rate >= 2_000, readings=mine)


def _reconcile(bench: Bench) -> Reading:
    totals = Totals()
    started = time.perf_counter()
    with metered(bench.stack) as meter:
        with bench.sessions.begin() as session:
            supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
            sent = count_submitted(session, supplier.id)
        count_book(bench.sessions, supplier.id, sent)
        differing = list(find_differences(bench.sessions, supplier.id, totals, connections=2))
        seconds = time.perf_counter() - started
    assert not differing, differing[:3]
    return Reading(totals.compared, totals.compared / seconds, costs=meter.of_one(totals.compared))
