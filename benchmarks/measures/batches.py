"""Batch work: validation on one core, the whole import against dlt (peer c) and plain COPY (peer d), and its
reconciliation.
"""

import threading
import time
from statistics import median

import psycopg

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates
from benchmarks.costs import metered
from benchmarks.payloads import SUPPLIER
from benchmarks.seed import account_tables
from benchmarks.stack import PROCESSES
from migration_service.db import revisions
from migration_service.db.base import Base
from migration_service.models.part import Part, parent_column, table_of
from migration_service.services.reconciliation.comparisons import start_comparison, wait_for_comparison
from migration_service.services.reconciliation.verdict import judge
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
    first = bench.take_numbers(count)
    probes.import_batch(bench, first, count)
    rows = _read_rows(bench, first, count)
    _dlt(bench, 200)  # creates its tables
    mine, c, d = alternate(
        max(2, bench.extent.rounds // 2),
        lambda: probes.import_accounts(bench, 0),
        lambda: _dlt(bench, count),
        lambda: _copy(bench, rows, count),
    )
    what, unit = "batch import", "accounts/s"
    copy = "d: plain COPY of the same rows"
    return [
        compared_rates(what, unit, (mine, c), peer_name="c: dlt", goal="at least 2.5 x peer c", needed=2.5),
        compared_rates(
            what, unit, (mine, d), peer_name=copy, goal="at least a quarter of peer d", needed=0.25
        ),
    ]


#: Rows of a table as COPY writes them, for each table.
_Rows = list[tuple[str, bytes]]


def _read_rows(bench: Bench, first: int, count: int) -> list[_Rows]:
    """Return the rows of these accounts, in as many parts as there are batch workers.

    The rows that they refer to are copied into a second database with the same revisions, and so with the
    same indexes and constraints.
    """
    with psycopg.connect(bench.stack.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE copy_limit")
    target_url = bench.stack.superuser_url("copy_limit")
    revisions.upgrade(target_url)
    numbers = f"external_account_number BETWEEN '{first:08d}' AND '{first + count - 1:08d}'"
    with psycopg.connect(bench.stack.superuser_url()) as source, psycopg.connect(target_url) as target:
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


def _copy(bench: Bench, parts: list[_Rows], count: int) -> Reading:
    """Copy the rows into empty tables, with a connection for each part."""
    url = bench.stack.superuser_url("copy_limit")

    def copy_part(rows: _Rows) -> None:
        with psycopg.connect(url) as connection:
            for table, content in rows:
                _write(connection, table, content)

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE account CASCADE")
        connection.execute("CHECKPOINT")
    copies = [threading.Thread(target=copy_part, args=[rows]) for rows in parts]
    started = time.perf_counter()
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join()
    return Reading(count, count / (time.perf_counter() - started))


def _read(connection: psycopg.Connection, query: str) -> bytes:
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as rows:
        return b"".join(rows)


def _write(connection: psycopg.Connection, table: str, rows: bytes) -> None:
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
        copy.write(rows)


def _dlt(bench: Bench, count: int) -> Reading:
    file = bench.folder / "payloads-for-dlt.ndjson"
    file.write_text("\n".join(probes.lines_of(bench, bench.take_numbers(count), count)) + "\n")
    with metered(bench.stack) as meter:
        result = bench.peer(
            "load_with_dlt.py", str(file), bench.stack.settings.owner_database_url, "peer_dlt"
        )
    return Reading(count, count / result["seconds"], costs=meter.of_one(count))


def measure_reconciliation(bench: Bench) -> list[Row]:
    """Measure the accounts per second that a reconciliation compares: all, and again if none has changed."""
    probes.import_batch(bench, bench.take_numbers(bench.extent.batch), bench.extent.batch)
    rows = []
    for what, goal, is_full in (("reconcile", 2_000, True), ("reconcile again", 10_000, False)):
        mine = [reconcile(bench, is_full=is_full) for _ in range(bench.extent.rounds)]
        rate = median(reading.rate for reading in mine)
        rows.append(Row(what, rate, "accounts/s", f"at least {goal:,}", rate >= goal, readings=mine))
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
