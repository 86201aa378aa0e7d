"""Copying the rows of an organisation from one database to another, in constant memory, and removing them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast
from uuid import UUID

import psycopg
from sqlalchemy import CursorResult, Table, text
from sqlalchemy.orm import Session

from migration_service.db.cells import IDS
from migration_service.errors import OrganisationNotMovableError
from migration_service.services.cells.ownership import (
    belongs,
    other_references,
    shared_tables,
    tables,
)

#: The most rows of one COPY. PostgreSQL keeps the checks of foreign keys in memory until its end.
_ROWS_OF_COPY = 100_000
#: The pages of a table, of 8 kB each, that one DELETE reads.
_PAGES_OF_PIECE = 2_000
#: The tables whose rows stay when an organisation has left: nobody may change the audit or use its numbers
#: again, and the keys tell their owners where the organisation is.
_KEPT_ANYWHERE = ("audit_entry", "retired_account_number")
KEPT = (*_KEPT_ANYWHERE, "organisation", "api_key")

#: For each table with rows that all organisations share, the ids in the source with those in the target.
Shared = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Content:
    """The rows of a table: their number, and the sum of their hashes, which has no order."""

    rows: int
    hash: int


@dataclass(frozen=True, slots=True)
class Copying:
    """A copy of one organisation in two open transactions. The source's has one snapshot for all reads."""

    source: Session
    target: Session
    organisation_id: int
    #: The number of the target, to which entries of the audit with such ids return.
    target_cell: int
    move_id: UUID

    def copy(self, told: Callable[[str, int], None]) -> dict[str, int]:
        """Copy and verify every table. Return the number of rows of each.

        `told` is called with each table and its number of rows. Raise OrganisationNotMovableError if a table
        has other rows in the target than in the source.
        """
        shared = self._match_shared()
        counts = {}
        for table in tables():
            plain = {column.name: column.name for column in table.columns}
            columns = plain | _expressions(table, shared)
            self._copy_table(table, columns)
            content = self._content(self.source, table, columns)
            if content != self._content(self.target, table, plain):
                raise OrganisationNotMovableError(
                    f"The copy of table {table.name} differs from the original. Nothing was moved. Are both "
                    "cells at the same version?"
                )
            counts[table.name] = content.rows
            told(table.name, content.rows)
        return counts

    def _copy_table(self, table: Table, columns: dict[str, str]) -> None:
        into = table.name
        if table.name == "audit_entry":
            columns = columns | {"once": "NULL", "move_id": f"'{self.move_id}'"}
        if table.name in _KEPT_ANYWHERE:
            into = f"moved_{table.name}"
            self.target.execute(text(f"CREATE TEMPORARY TABLE {into} (LIKE {table.name}) ON COMMIT DROP"))
        selected = f"SELECT {', '.join(columns.values())} FROM {table.name} WHERE {self._which(table)}"
        _pipe(self.source, f"COPY ({selected}) TO STDOUT", self.target, into, ", ".join(columns))
        if into != table.name:
            # An earlier move may have brought some of them.
            names = ", ".join(columns)
            added = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {into} ON CONFLICT DO NOTHING"
            self.target.execute(text(added))

    def _which(self, table: Table) -> str:
        """Return the condition for the rows to copy. Entries of the audit from the target are still there."""
        condition = belongs(table.name, self.organisation_id)
        return (
            f"{condition} AND id / {IDS} <> {self.target_cell}" if table.name == "audit_entry" else condition
        )

    def _content(self, session: Session, table: Table, columns: dict[str, str]) -> Content:
        compared = [it for name, it in columns.items() if name not in ("once", "move_id")]
        rows = f"SELECT {', '.join(compared)} FROM {table.name} WHERE {self._which(table)}"
        found = session.execute(
            text(
                f"SELECT count(*), coalesce(sum(hashtextextended(r::text, 0)::numeric), 0) FROM ({rows}) AS r"
            )
        )
        return Content(*found.one())

    def _match_shared(self) -> Shared:
        """Find the shared teams and vendors that the organisation uses, or create them in the target."""
        return {table: dict(self._match(table)) for table in shared_tables()}

    def _match(self, table: str) -> Iterator[tuple[int, int]]:
        used = " UNION ".join(
            f"SELECT {it.column} FROM {it.table} WHERE {belongs(it.table, self.organisation_id)}"
            for it in other_references()
            if it.parent == table
        )
        shared = f"SELECT * FROM {table} WHERE organisation_id IS NULL AND "
        for row in self.source.execute(text(f"{shared} id IN ({used})")).mappings().all():
            found = (
                self.target.execute(text(f"{shared} name = :name"), {"name": row["name"]}).mappings().first()
            )
            if found is None:
                names = ", ".join(row.keys())
                values = ", ".join(f":{name}" for name in row.keys())  # noqa: SIM118
                self.target.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), dict(row))
            elif any(found.get(name) != row.get(name) for name in ("kind", "url")):
                raise OrganisationNotMovableError(
                    f"The shared payment vendor {row['name']!r} has another address in the target cell."
                )
            yield row["id"], found["id"] if found else row["id"]


def remove_rows(
    session: Session, organisation_id: int, *, kept: tuple[str, ...] = _KEPT_ANYWHERE
) -> Iterator[int]:
    """Remove an organisation from its tables, except those `kept`, piece by piece.

    Yield the number of rows after each piece. The caller may commit then: repeating it goes on.
    """
    if "organisation" not in kept:
        yield _delete(session, f"operator_organisation WHERE organisation_id = {organisation_id:d}")
    for table in reversed(tables()):
        if table.name in kept:
            continue
        # By where the rows are, so that each piece reads its own part of the table only.
        pages = session.scalar(_PAGES, {"table": table.name}) or 0
        for page in range(0, pages, _PAGES_OF_PIECE):
            here = f"ctid >= '({page},0)' AND ctid < '({page + _PAGES_OF_PIECE},0)'"
            yield _delete(session, f"{table.name} WHERE {here} AND {belongs(table.name, organisation_id)}")


def count_late_writes(session: Session, organisation_id: int, since: int) -> dict[str, int]:
    """Return the number of rows, by table, that transactions from `since` on have written.

    Rows know only the last 32 bits of their transaction. What reading writes is left out: entries of the
    audit, and the positions of readers of events, who then get some events again.
    """
    full = "((CASE WHEN now.low < row.low THEN now.high - 1 ELSE now.high END) << 32) + row.low"
    counts = {}
    for table in tables():
        if table.name in ("audit_entry", "event_consumer"):
            continue
        which = (
            f"SELECT xmin::text::bigint AS low FROM {table.name} WHERE {belongs(table.name, organisation_id)}"
        )
        statement = f"""
            SELECT count(*) FROM ({which}) AS row,
                 (SELECT id & 4294967295 AS low, id >> 32 AS high
                  FROM CAST(pg_snapshot_xmax(pg_current_snapshot())::text AS bigint) AS id) AS now
            WHERE {full} >= :since"""
        if count := session.scalar(text(statement), {"since": since}):
            counts[table.name] = count
    return counts


# A table that is divided into partitions has no pages of its own. Each of its partitions begins with page 0.
_PAGES = text("""
    SELECT max(pg_relation_size(part)) / current_setting('block_size')::bigint
    FROM (SELECT CAST(quote_ident(:table) AS regclass) AS name) AS divided,
         LATERAL (SELECT name UNION SELECT relid FROM pg_partition_tree(name)) AS parts (part)
""")


def _delete(session: Session, rows: str) -> int:
    deleted = cast("CursorResult[Any]", session.execute(text(f"DELETE FROM {rows}")))
    return deleted.rowcount


def _expressions(table: Table, shared: Shared) -> dict[str, str]:
    """Return the columns whose values differ in the target."""
    # As after a dump was restored: the numbers of its transactions are another server's, and come before all
    # of the target's.
    found = {"generation": "generation - 1"} if table.name in ("event", "event_consumer") else {}
    for key in other_references():
        changed = {old: new for old, new in shared.get(key.parent, {}).items() if old != new}
        if key.table == table.name and changed:
            cases = " ".join(f"WHEN {old:d} THEN {new:d}" for old, new in changed.items())
            found[key.column] = f"CASE {key.column} {cases} ELSE {key.column} END"
    return found


def _pipe(source: Session, copy_out: str, target: Session, table: str, columns: str) -> None:
    """Send the rows that a COPY reads to a table of the other database, as they arrive."""
    with _driver(source).cursor() as reading, reading.copy(copy_out.encode()) as rows:
        row_by_row = iter(rows)  # PostgreSQL sends each row in a message of its own
        for first in row_by_row:
            with (
                _driver(target).cursor() as writing,
                writing.copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copied,
            ):
                copied.write(first)
                for row in islice(row_by_row, _ROWS_OF_COPY - 1):
                    copied.write(row)


def _driver(session: Session) -> "psycopg.Connection[Any]":
    return cast("psycopg.Connection[Any]", session.connection().connection.driver_connection)
