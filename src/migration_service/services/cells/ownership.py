"""The organisation to which each row belongs, found by walking the foreign keys of the models.

A table belongs to the organisation through one column, its owner: the shortest chain of keys that are never
null. Its other keys must lead to the same organisation, or to a team or vendor that all of them share.
`find_strays` proves it for an organisation, and a test lists these keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection, Table, text
from sqlalchemy.schema import sort_tables

from migration_service.db.base import Base

_ORGANISATION = "organisation"

#: Tables of a cell, which stay there: its operators and settings, its chain of the audit, and messages to the
#: people who run it.
OF_THE_CELL = frozenset(
    {
        *("operator", "operator_organisation", "operator_session", "operator_form"),
        *("service_limit", "audit_day", "event_history", "alert_email"),
    }
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A column with the key of a row in another table."""

    table: str
    column: str
    parent: str
    #: The column of the parent that has the same value.
    parent_column: str = "id"

    def __str__(self) -> str:
        return f"{self.table}.{self.column} -> {self.parent}"


# Owners without a foreign key. The models say why there is none.
_WITHOUT_KEY = (
    Reference("batch_line", "batch_id", "batch"),
    Reference("undo_line", "undo_id", "undo"),
    Reference("retired_account_number", "service_account_number", "undo_line", "service_account_number"),
    Reference("idempotency_key", "organisation_id", _ORGANISATION),
    Reference("audit_entry", "organisation_id", _ORGANISATION),
    Reference("event", "organisation_id", _ORGANISATION),
    Reference("event_consumer", "organisation_id", _ORGANISATION),
    Reference("webhook_delivery", "endpoint_id", "webhook_endpoint"),
    Reference("webhook_attempt", "delivery_id", "webhook_delivery"),
)


@cache
def owners() -> dict[str, Reference]:
    """Return the owner of each table, which comes after that of its parent. The organisation has none.

    Raise LookupError if a table belongs neither to an organisation nor to the cell.
    """
    found = {it.table: it for it in _WITHOUT_KEY if it.parent == _ORGANISATION}
    level = {_ORGANISATION, *found}
    left = {name: table for name, table in Base.metadata.tables.items() if name not in OF_THE_CELL | level}
    declared = {it.table: it for it in _WITHOUT_KEY}
    while level:
        # Nothing belongs to an organisation through a team or vendor, which may be a shared one.
        parents = {name for name in level if not _is_shareable(name)}
        next_level = {}
        for name, table in left.items():
            keys = [it for it in _keys(table, nullable=_is_shareable(name)) if it.parent in parents]
            if name in declared and declared[name].parent in parents:
                keys = [declared[name]]
            if keys:
                next_level[name] = keys[0]
        found |= next_level
        level = set(next_level)
        left = {name: table for name, table in left.items() if name not in level}
    if left:
        raise LookupError(
            f"These tables belong to no organisation and to no cell: {', '.join(sorted(left))}."
        )
    return found


@cache
def tables() -> list[Table]:
    """Return the tables with rows of organisations, each after its owner and those that it refers to."""
    every = Base.metadata.tables
    wanted = [every[_ORGANISATION], *(every[name] for name in owners())]
    return sort_tables(
        wanted, extra_dependencies=[(every[it.parent], every[it.table]) for it in _WITHOUT_KEY]
    )


def shared_tables() -> list[str]:
    """Return the tables with rows that belong to an organisation, or to all of them if it is null."""
    return [it.name for it in tables() if _is_shareable(it.name)]


def other_references() -> Iterator[Reference]:
    """Yield the keys through which rows refer to rows of an organisation, except the owners."""
    for table in tables():
        for key in _keys(table, nullable=True):
            if key != owners().get(table.name) and (key.parent == _ORGANISATION or key.parent in owners()):
                yield key


def belongs(table: str, organisation_id: int) -> str:
    """Return the SQL condition for the rows of a table that belong to an organisation."""
    if table == _ORGANISATION:
        return f"id = {organisation_id:d}"
    owner = owners()[table]
    if owner.parent == _ORGANISATION:
        return f"{owner.column} = {organisation_id:d}"
    of_parent = belongs(owner.parent, organisation_id)
    return f"{owner.column} IN (SELECT {owner.parent_column} FROM {owner.parent} WHERE {of_parent})"


def find_strays(connection: Connection, organisation_id: int) -> list[str]:
    """Return the references of an organisation's rows that lead to another organisation. There are none."""
    return [str(it) for it in other_references() if connection.scalar(text(_strays(it, organisation_id)))]


def _strays(key: Reference, organisation_id: int) -> str:
    is_shared = " OR parent.organisation_id IS NULL" if _is_shareable(key.parent) else ""
    return f"""
        SELECT EXISTS (
            SELECT FROM {key.table} AS stray
            WHERE {belongs(key.table, organisation_id)} AND stray.{key.column} IS NOT NULL
              AND NOT EXISTS (SELECT FROM {key.parent} AS parent WHERE parent.id = stray.{key.column}
                              AND ({belongs(key.parent, organisation_id)}{is_shared})))"""


def _keys(table: Table, *, nullable: bool) -> list[Reference]:
    return [
        Reference(table.name, column.name, key.column.table.name)
        for column in table.columns
        for key in column.foreign_keys
        if nullable or not column.nullable
    ]


def _is_shareable(name: str) -> bool:
    column = Base.metadata.tables[name].columns.get("organisation_id")
    return column is not None and bool(column.nullable and column.foreign_keys)
