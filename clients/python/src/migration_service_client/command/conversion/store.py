"""All rows of the files in a temporary database, which the disk holds and nobody else can open.

A file of millions of rows needs no more memory than a small one: a bit or two for each row.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from migration_service_client.command.conversion.mapping import File
from migration_service_client.command.conversion.problems import Code
from migration_service_client.command.conversion.tables import Fault, Row

#: Kilobytes of the database that are kept in memory.
_CACHE = 32_000
#: The fault of rows that are left out on purpose.
SKIPPED = Fault(Code.NO_CONDITION_MET, "skipped")

_encode = msgspec.json.encode
_cells = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row with its number in its file, from 1."""

    number: int
    line: int
    cells: list[str]
    fault: Fault | None = None


class Marks:
    """A set of numbers, one bit each."""

    def __init__(self, count: int) -> None:
        self._bits = bytearray(count // 8 + 1)

    def add(self, number: int) -> bool:
        """Add a number. Return whether it was not there."""
        place, bit = number >> 3, 1 << (number & 7)
        new = not self._bits[place] & bit
        self._bits[place] |= bit
        return new

    def __contains__(self, number: int) -> bool:
        return bool(self._bits[number >> 3] & (1 << (number & 7)))


class Store:
    """The rows of all files."""

    def __init__(self, files: Sequence[File]) -> None:
        self._tables = {file.name: f"rows{index}" for index, file in enumerate(files)}
        # A database without a name is a file that is already deleted.
        self._database = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE}"):
            self._database.execute(f"PRAGMA {setting}")

    def close(self) -> None:
        """Delete all rows."""
        self._database.close()

    def load(self, file: File, rows: Iterator[Row]) -> int:
        """Store the rows of a file, find the faults of their keys, and return how many there are."""
        table, keys = self._tables[file.name], [f"key{it}" for it in range(len(file.lookups))]
        names = ("number INTEGER PRIMARY KEY", "line", "cells", "fault", *keys)
        self._database.execute(f"CREATE TABLE {table} ({', '.join(names)})")
        self._database.execute("BEGIN")
        places = ", ".join("?" * len(names))
        self._database.executemany(f"INSERT INTO {table} VALUES ({places})", _stored(file, rows))
        for key in keys:
            self._database.execute(f"CREATE INDEX {table}_{key} ON {table} ({key})")
        if file.key:
            self._find_duplicates(file, table)
        self._database.execute("COMMIT")
        (count,) = self._database.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def find(self, file: File, lookup: int, cells: Sequence[str]) -> Iterator[StoredRow]:
        """Yield the rows that have these cells in the columns of a lookup, in the order of the file."""
        if (key := _key(cells)) is not None:
            yield from self._select(file, f"WHERE key{lookup} = ? ORDER BY number", key)

    def all(self, file: File) -> Iterator[StoredRow]:
        """Yield all rows of a file in its order."""
        return self._select(file, "ORDER BY number")

    def groups(self, file: File, lookup: int) -> Iterator[list[StoredRow]]:
        """Yield the rows of a file that have the columns of a lookup in common, by their first rows."""
        table, key = self._tables[file.name], f"key{lookup}"
        first = f"SELECT min(number), {key} FROM {table} WHERE {key} IS NOT NULL GROUP BY {key} ORDER BY 1"
        for _, found in self._database.execute(first):
            yield list(self._select(file, f"WHERE {key} = ? ORDER BY number", found))
        for row in self._select(file, f"WHERE {key} IS NULL ORDER BY number"):
            yield [row]

    def _select(self, file: File, condition: str, *values: str) -> Iterator[StoredRow]:
        query = f"SELECT number, line, cells, fault FROM {self._tables[file.name]} {condition}"
        for number, line, cells, fault in self._database.execute(query, values):
            yield StoredRow(number, line, _cells(cells), fault and Fault(*msgspec.json.decode(fault)))

    def _find_duplicates(self, file: File, table: str) -> None:
        key, names = f"key{file.lookup(file.key)}", ", ".join(file.key)
        faults = {
            Code.EMPTY_KEY: f"The key ({names}) is empty.",
            Code.DUPLICATE_KEY: f"Another row has the same key ({names}) and other cells. Remove one.",
            Code.REPEATED_ROW: "An earlier row has the same cells. This one is not used.",
        }
        twice = f"SELECT {key} AS twice FROM {table} WHERE {key} IS NOT NULL GROUP BY 1 HAVING count(*) > 1"
        same = (
            f"SELECT {key} FROM {table} WHERE {key} IN ({twice}) GROUP BY 1 HAVING count(DISTINCT cells) = 1"
        )
        first = f"SELECT min(number) FROM {table} WHERE {key} IN ({same}) GROUP BY {key}"
        conditions = {
            Code.EMPTY_KEY: f"{key} IS NULL",
            Code.DUPLICATE_KEY: f"{key} IN ({twice}) AND {key} NOT IN ({same})",
            Code.REPEATED_ROW: f"{key} IN ({same}) AND number NOT IN ({first})",
        }
        for code, condition in conditions.items():
            fault = _encode([code, faults[code], file.key[0]])
            update = f"UPDATE {table} SET fault = ? WHERE fault IS NULL AND {condition}"
            self._database.execute(update, (fault,))


def _stored(file: File, rows: Iterator[Row]) -> Iterator[tuple[Any, ...]]:
    lookups = [[file.columns[it] for it in columns] for columns in file.lookups]
    skip = [(file.columns[column], cells) for column, cells in file.skip.items()]
    for number, row in enumerate(rows, 1):
        cells, fault = row.cells, row.fault
        if fault is None and any(cells[place] in found for place, found in skip):
            fault = SKIPPED
        yield (
            number,
            row.line,
            _encode(cells),
            fault and _encode([fault.code, fault.detail, fault.column]),
            *[_key([cells[it] for it in places]) for places in lookups],
        )


def _key(cells: Sequence[str]) -> str | None:
    """Return cells as one text, or None if all are empty."""
    return "\x1f".join(cells) if any(cells) else None
