"""Work on whole books: validation on one core, the import beside dlt (peer c) and plain COPY (peer d), its
reconciliation and its undo, and added data beside single requests.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates, row_of_rates
from benchmarks.costs import metered
from benchmarks.payloads import SUPPLIER, write_lines
from benchmarks.seed import account_tables, set_up_vendor
from benchmarks.stack import PROCESSES
from migration_service.db import revisions
from migration_service.db.base import Base
from migration_service.models.part import Part, parent_column, table_of
from migration_service.services.reconciliation.comparisons import start_comparison, wait_for_comparison
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import BatchKind


def measure_checking(bench: Bench) -> Row:
    """Measure the payloads per second that one process parses and validates."""
    probes.check_lines(bench, 0)
    mine = [probes.check_lines(bench, 0) for _ in range(bench.extent.rounds)]
    return row_of_rates("batch validate, one core", "accounts/s", mine, 2_000)


def measure_import(bench: Bench) -> list[Row]:
    """Measure created accounts per second from NDJSON, compared with dlt and with COPY of the same rows."""
    count = bench.extent.batch
    first = bench.take_numbers(count)
    probes.import_batch(bench, first, count)
    _dlt(bench, 200)  # creates its tables
    with bench.stack.new_database() as (_, target_url):
        rows = _read_rows(bench, target_url, first, count)
        mine, c, d = alternate(
            max(2, bench.extent.rounds // 2),
            lambda: probes.import_accounts(bench, 0),
            lambda: _dlt(bench, count),
            lambda: _copy(bench, target_url, rows, count),
        )
    row = partial(compared_rates, "batch import", "accounts/s")
    return [
        row((mine, c), peer_name="c: dlt", than="peer c", needed=2.5),
        row((mine, d), peer_name="d: plain COPY of the same rows", than="peer d", needed=0.25),
    ]


#: Rows of a table as COPY writes them, for each table.
_Rows = list[tuple[str, bytes]]


def _read_rows(bench: Bench, target_url: str, first: int, count: int) -> list[_Rows]:
    """Return the rows of these accounts, in as many parts as there are batch workers.

    The rows that they refer to are copied into a second database with the same revisions, and so with the
    same indexes and constraints.
    """
    revisions.upgrade(target_url)
    numbers = f"external_account_number BETWEEN '{first:08d}' AND '{first + count - 1:08d}'"
    with bench.stack.connect() as source, psycopg.connect(target_url) as target:
        for table in ("organisation", "import_supplier", "operations_team"):
            _write(target, table, _read(source, f"SELECT * FROM {table}"))
        described = source.execute("SELECT * FROM account_import_process LIMIT 0").description or ()
        columns = ", ".join(it.name for it in described if it.name not in ("payload", "warnings"))
        processes = f"SELECT {columns} FROM account_import_process WHERE {numbers}"
        _write(target, f"account_import_process ({columns})", _read(source, processes))
        parts = [f"{numbers} AND id % {PROCESSES} = {part}" for part in range(PROCESSES)]
        return [
            [(table_of(it).name, _read(source, _rows(it, part))) for it in account_tables()] for part in parts
        ]


def _rows(model: type[Base], accounts: str, columns: str = "*") -> str:
    """Return the query of a table's rows that belong to the accounts with this condition."""
    if issubclass(model, Part):
        accounts = f"{parent_column(model).name} IN ({_rows(model.sources[0].parent, accounts, 'id')})"
    return f"SELECT {columns} FROM {table_of(model).name} WHERE {accounts}"


def _copy(bench: Bench, url: str, parts: list[_Rows], count: int) -> Reading:
    """Copy the rows into empty tables, with a connection for each part."""

    def copy_part(rows: _Rows) -> None:
        with psycopg.connect(url) as connection:
            for table, content in rows:
                _write(connection, table, content)

    with psycopg.connect(url) as connection:
        connection.execute("TRUNCATE account CASCADE")
    bench.stack.maintain("CHECKPOINT")
    started = time.perf_counter()
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(copy_part, parts))
    return Reading(count, count / (time.perf_counter() - started))


def _read(connection: psycopg.Connection, query: str) -> bytes:
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as rows:
        return b"".join(rows)


def _write(connection: psycopg.Connection, table: str, rows: bytes) -> None:
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
        copy.write(rows)


def _dlt(bench: Bench, count: int) -> Reading:
    lines = probes.lines_of(bench, bench.take_numbers(count), count)
    file = write_lines(bench.folder / "payloads-for-dlt.ndjson", lines)
    with metered(bench.stack) as meter:
        result = bench.peer("load_with_dlt.py", str(file), "peer_dlt")
    return Reading(count, count / result["seconds"], costs=meter.of_one(count))


def measure_reconciliation(bench: Bench) -> list[Row]:
    """Measure the accounts per second that a reconciliation compares: all, and again if none has changed."""
    probes.import_batch(bench, bench.take_numbers(bench.extent.batch), bench.extent.batch)
    rows = []
    for what, is_full, needed in (("reconcile", True, 2_000), ("reconcile again", False, 10_000)):
        mine = [reconcile(bench, is_full=is_full) for _ in range(bench.extent.rounds)]
        rows.append(row_of_rates(what, "accounts/s", mine, needed))
    return rows


def reconcile(bench: Bench, *, is_full: bool) -> Reading:
    """Compare the accounts of the supplier: all of them, or those that have changed."""
    started = time.perf_counter()
    with metered(bench.stack) as meter:
        with bench.sessions.begin() as session:
            supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
            comparison_id = start_comparison(session, supplier, is_full=is_full)[0].id
        wait_for_comparison(bench.sessions, comparison_id)
        with bench.sessions.begin() as session:
            verdict = judge(session, supplier.id)
        seconds = time.perf_counter() - started
    compared = verdict.totals.compared
    assert not verdict.differing, verdict.problems
    return Reading(compared, compared / seconds, costs=meter.of_one(compared))


def measure_undo(bench: Bench) -> Row:
    """Measure reverted accounts per second, of a batch that was just imported."""
    mine = [probes.revert_batch(bench) for _ in range(max(2, bench.extent.rounds // 2))]
    return row_of_rates("undo of a batch", "accounts/s", mine, None)


def measure_added_data(bench: Bench) -> list[Row]:
    """Measure lines per second of a batch, beside requests per second, each with one new item."""
    set_up_vendor(bench.stack.settings, bench.stack.start_sandbox())
    return [_add(bench, kind) for kind in probes.ADD]


def _add(bench: Bench, kind: BatchKind) -> Row:
    readings = alternate(
        max(2, bench.extent.rounds // 2),
        partial(probes.add_by_batch, bench, kind),
        partial(probes.add, bench, bench.extent.seconds, kind),
    )
    row = partial(compared_rates, f"add {kind} by batch", "lines/s", readings, peer_name="single requests")
    if kind is BatchKind.PAYMENT_INSTRUCTIONS:  # a vendor is asked about each line
        return row(than="for information: up to 1,000, the vendor's rate", needed=None)
    return row(than="single requests", needed=10)
