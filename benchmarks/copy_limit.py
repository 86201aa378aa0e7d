"""Peer d: plain COPY of the rows that account creation writes, into a second database.

Both databases have the same revisions, so they have the same indexes and constraints.
"""

import threading
import time
from collections.abc import Iterator

import psycopg

from benchmarks.bench import Reading
from benchmarks.seed import account_tables
from benchmarks.stack import PROCESSES, Stack
from migration_service.db import revisions
from migration_service.db.base import Base
from migration_service.models.part import Part, parent_column, table_of

_DATABASE = "copy_limit"
#: Tables that accounts refer to. They are not measured.
_AROUND = ("organisation", "import_supplier", "operations_team", "account_import_process")


class CopyLimit:
    """Rows of some accounts, and the database to copy them into."""

    def __init__(self, stack: Stack) -> None:
        self._source = stack.settings.database_url
        self._target = stack.superuser_url(_DATABASE)
        with psycopg.connect(stack.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {_DATABASE}")
        revisions.upgrade(self._target)
        self._parts: list[list[tuple[str, bytes]]] = []
        self._accounts = 0

    def take_rows(self, first: int, count: int) -> None:
        """Read the rows of the accounts with these numbers, and the rows that they refer to."""
        with psycopg.connect(self._source) as source, psycopg.connect(self._target) as target:
            for table in _AROUND:
                columns = "*" if table != "account_import_process" else _columns_without_attempt(source)
                into = table if columns == "*" else f"{table} ({columns})"
                where = _range(first, count) if columns != "*" else "TRUE"
                _write(target, into, _read(source, f"SELECT {columns} FROM {table} t WHERE {where}"))
            for part in range(PROCESSES):
                of_part = f"{_range(first, count, 'account')} AND account.id % {PROCESSES} = {part}"
                self._parts.append(
                    [
                        (table_of(model).name, _read(source, _rows(model, of_part)))
                        for model in account_tables()
                    ]
                )
        self._accounts = count

    def copy(self) -> Reading:
        """Copy them into empty tables, with as many connections as batch workers."""
        with psycopg.connect(self._target) as connection:
            connection.execute("TRUNCATE account CASCADE")
        with psycopg.connect(self._target, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        copies = [threading.Thread(target=_copy_part, args=(self._target, part)) for part in self._parts]
        started = time.perf_counter()
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.join()
        return Reading(self._accounts, self._accounts / (time.perf_counter() - started))


def _copy_part(target: str, part: list[tuple[str, bytes]]) -> None:
    with psycopg.connect(target) as connection:
        for table, rows in part:
            _write(connection, table, rows)


def _range(first: int, count: int, table: str = "t") -> str:
    return f"{table}.external_account_number BETWEEN '{first:08d}' AND '{first + count - 1:08d}'"


def _columns_without_attempt(source: psycopg.Connection) -> str:
    found = source.execute(
        "SELECT string_agg(column_name, ', ') FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name = 'account_import_process' "
        "AND column_name NOT IN ('payload', 'warnings')"
    ).fetchone()
    assert found
    return str(found[0])


def _rows(model: type[Base], where: str) -> str:
    joins = "".join(_joins(model))
    return f"SELECT {table_of(model).name}.* FROM {table_of(model).name}{joins} WHERE {where}"


def _joins(model: type[Base]) -> Iterator[str]:
    while issubclass(model, Part):
        parent = parent_column(model)
        above = next(iter(parent.foreign_keys)).column.table.name
        yield f" JOIN {above} ON {above}.id = {table_of(model).name}.{parent.name}"
        model = next(each for each in account_tables() if table_of(each).name == above)


def _read(connection: psycopg.Connection, query: str) -> bytes:
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as rows:
        return b"".join(rows)


def _write(connection: psycopg.Connection, table: str, rows: bytes) -> None:
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
        for start in range(0, len(rows), 1 << 18):
            copy.write(rows[start : start + (1 << 18)])
