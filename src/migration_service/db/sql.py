"""SQL statements of the hot path, which runs in every request or for every account, sent through psycopg.

For a short statement a Session costs more than the round trip and the driver together (decision 6 has the
measurements). Connections come from the engine's pool, and errors are SQLAlchemy's, as everywhere. Statements
are literal SQL with `%(name)s` for each value.

These types let the type checker prevent mix-ups:

SqlConnection         single statements. Each is a separate transaction, unless the subclass is given
├── OpenTransaction   statements that are committed together or not at all
└── ReferenceReader   single statements, some of them answered from memory (db/reference.py)

A function that locks rows, writes with more than one statement, or must be rolled back takes an
OpenTransaction.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.engine import NOT_THE_PRIMARY, end_autocommit, is_primary_gone
from migration_service.db.redaction import hide_values

# The named tuple type of each statement's rows. Creating one takes as long as fetching some rows.
_ROWS: dict[str, Callable[[tuple[Any, ...]], Any]] = {}


class SqlConnection:
    """A connection for single statements, made by `autocommit`."""

    def __init__(self, connection: "psycopg.Connection[Any]", info: dict[str, Any]) -> None:
        self._connection = connection
        #: The pool's record of the connection.
        self._info = info

    def execute(self, statement: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement as named tuples. Raise SQLAlchemy's DBAPIError if it fails."""
        return self._fetch(statement, values)

    def _fetch(self, statement: str, values: Mapping[str, Any], *, binary: bool = False) -> list[Any]:
        try:
            cursor = self._connection.execute(statement, values, binary=binary)
            rows = cursor.fetchall()
        except psycopg.Error as error:
            raise _translated(error, statement, self._info) from error
        make = _ROWS.get(statement)
        if make is None:
            names = [column.name for column in cursor.description or ()]
            row: Any = namedtuple("Row", names)  # type: ignore[misc]  # wants a literal
            make = _ROWS[statement] = row._make
        return [make(row) for row in rows]


class OpenTransaction(SqlConnection):
    """A connection with an open transaction, made by `begin`, or `of` a Session."""

    @classmethod
    def of(cls, session: Session) -> "OpenTransaction":
        """Return the transaction of a session, for code that sessions and the hot path share."""
        pooled = session.connection().connection
        return cls(cast(Any, pooled.driver_connection), pooled.info)

    def lock(self, statement: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement that locks rows until the transaction ends.

        Only an OpenTransaction has this method, because locks would otherwise be released immediately. The
        rows may have payloads, which would arrive as hexadecimal text if they were not asked for as bytes.
        """
        return self._fetch(statement, values, binary=True)

    @contextmanager
    def copy(self, statement: str) -> "Iterator[psycopg.Copy]":
        """Open a COPY. Raise SQLAlchemy's DBAPIError if it fails."""
        try:
            with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
                yield copy
        except psycopg.Error as error:
            raise _translated(error, statement, self._info) from error


def connection_of(handle: Session | SqlConnection) -> SqlConnection:
    """Return the connection of a session, or the one that was given."""
    return handle if isinstance(handle, SqlConnection) else OpenTransaction.of(handle)


@contextmanager
def autocommit(sessions: sessionmaker[Session]) -> Iterator[SqlConnection]:
    """Open a connection on which each statement is a separate transaction, without BEGIN and COMMIT."""
    with _connect(sessions) as (connection, info):
        if not connection.autocommit:
            connection.autocommit = True  # and it stays in this mode until a transaction needs the connection
        yield SqlConnection(connection, info)


@contextmanager
def begin(sessions: sessionmaker[Session]) -> Iterator[OpenTransaction]:
    """Open a transaction, which is committed at the end of the block, or rolled back if that raises."""
    with _connect(sessions) as (connection, info):
        end_autocommit(connection)
        try:
            yield OpenTransaction(connection, info)
        except BaseException:
            _roll_back(connection)
            raise
        try:
            connection.commit()
        except psycopg.Error as error:
            raise _translated(error, "COMMIT", info) from error


def _roll_back(connection: "psycopg.Connection[Any]") -> None:
    """Roll back without telling psycopg, which would discard its prepared statements.

    It does so in case the transaction changed a table, which none here does. After each dry run the statement
    of account creation would have to be planned and prepared again. If this fails, or if the server is still
    busy with a statement, the pool rolls back or discards the connection.
    """
    if connection.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        with suppress(psycopg.Error):
            connection.pgconn.exec_(b"ROLLBACK")


@contextmanager
def _connect(sessions: sessionmaker[Session]) -> "Iterator[tuple[psycopg.Connection[Any], dict[str, Any]]]":
    engine: Engine = sessions.kw["bind"]
    try:
        pooled = engine.raw_connection()
    except psycopg.Error as error:
        raise _translated(error, "connect", {}) from error
    connection = cast("psycopg.Connection[Any]", pooled.driver_connection)
    try:
        yield connection, pooled.info
    finally:
        if connection.closed:
            pooled.invalidate()
        pooled.close()  # returns it to the pool, which rolls back anything not committed


def _translated(error: psycopg.Error, statement: str, info: dict[str, Any]) -> BaseException:
    hide_values(error)
    if is_primary_gone(error):
        info[NOT_THE_PRIMARY] = True
        return OperationalError(statement, None, error, hide_parameters=True)
    return DBAPIError.instance(statement, None, error, psycopg.Error, hide_parameters=True)
