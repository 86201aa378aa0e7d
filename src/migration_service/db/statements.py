"""Statements of the hot path, on psycopg itself: what runs in every request, and for every account.

A Session and Core between take longer than a short statement, its round trip and the driver together
(docs/performance.md). Connections are those of the engine's pool, and errors are SQLAlchemy's, as everywhere.
Statements are written in full, with `%(name)s` for their values; everything else goes through a Session.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

# How the rows of each statement become named tuples: to find that out takes as long as to fetch some.
_ROWS: dict[str, Callable[[tuple[Any, ...]], Any]] = {}


class Direct:
    """A connection for such statements."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    @classmethod
    def within(cls, session: Session) -> "Direct":
        """The connection of a session: statements are part of its transaction."""
        return cls(cast(Any, session.connection().connection.driver_connection))

    def execute(self, statement: str, values: Mapping[str, Any]) -> list[Any]:
        """The rows of a statement that has some, as named tuples. Raises SQLAlchemy's DBAPIError."""
        try:
            cursor = self._connection.execute(statement, values)
            rows = cursor.fetchall()
        except psycopg.Error as error:
            raise _translated(error, statement) from error
        make = _ROWS.get(statement)
        if make is None:
            names = [column.name for column in cursor.description or ()]
            row: Any = namedtuple("Row", names)  # type: ignore[misc]  # wants a literal
            make = _ROWS[statement] = row._make
        return [make(row) for row in rows]


@contextmanager
def autocommit(sessions: sessionmaker[Session]) -> Iterator[Direct]:
    """A connection on which each statement is a transaction of its own, without BEGIN and COMMIT."""
    with _connect(sessions) as connection:
        connection.autocommit = True
        try:
            yield Direct(connection)
        finally:
            if not connection.closed:
                connection.autocommit = False


@contextmanager
def transaction(sessions: sessionmaker[Session]) -> Iterator[Direct]:
    """A connection in a transaction: committed at the end, rolled back where that is an error."""
    with _connect(sessions) as connection:
        yield Direct(connection)
        try:
            connection.commit()
        except psycopg.Error as error:
            raise _translated(error, "COMMIT") from error


@contextmanager
def _connect(sessions: sessionmaker[Session]) -> "Iterator[psycopg.Connection[Any]]":
    engine: Engine = sessions.kw["bind"]
    try:
        pooled = engine.raw_connection()
    except psycopg.Error as error:
        raise _translated(error, "connect") from error
    connection = cast("psycopg.Connection[Any]", pooled.driver_connection)
    try:
        yield connection
    finally:
        if connection.closed:
            pooled.invalidate()
        pooled.close()  # back to the pool, which rolls back what was not committed


def _translated(error: psycopg.Error, statement: str) -> BaseException:
    return DBAPIError.instance(statement, None, error, psycopg.Error, hide_parameters=True)
