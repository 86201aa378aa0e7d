"""SqlConnection without a Session: transactions, errors, and the return of connections to the pool."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.sql import OpenTransaction, autocommit, begin
from support.factories import make_customer

#: Yields a connection of these sessions.
_Opens = Callable[["sessionmaker[Session]"], AbstractContextManager[Any]]

_FIND = "SELECT id, name FROM operations_team WHERE name = %(name)s"
_MAKE = "INSERT INTO operations_team (name) VALUES (%(name)s) RETURNING id"
_PID = "SELECT pg_backend_pid() AS pid"


@pytest.fixture
def one_connection(migrated: Settings) -> "Iterator[sessionmaker[Session]]":
    """Sessions on a pool of one connection."""
    engine = make_engine(migrated.database_url, pool_size=1, max_overflow=0, application_name="direct")
    yield make_sessionmaker(engine)
    engine.dispose()


@pytest.mark.parametrize(("context", "is_kept"), [(autocommit, True), (begin, False)])
def test_each_statement_is_a_transaction_or_all_of_them_are_one(
    one_connection: "sessionmaker[Session]", context: _Opens, *, is_kept: bool
) -> None:
    with pytest.raises(RuntimeError), context(one_connection) as statements:
        statements.execute(_MAKE, {"name": "begun"})
        raise RuntimeError
    with context(one_connection) as statements:
        assert bool(statements.execute(_FIND, {"name": "begun"})) == is_kept
        statements.execute(_MAKE, {"name": "done"})
    with begin(one_connection) as statements:
        assert statements.execute(_FIND, {"name": "done"})


def test_an_error_is_raised_as_it_is_if_the_connection_is_lost_meanwhile(
    one_connection: "sessionmaker[Session]", sessions: "sessionmaker[Session]"
) -> None:
    with pytest.raises(RuntimeError), begin(one_connection) as statements:
        (row,) = statements.execute(_PID, {})
        with autocommit(sessions) as others:
            others.execute("SELECT pg_terminate_backend(%(pid)s, 5000)", {"pid": row.pid})
        raise RuntimeError
    with begin(one_connection) as statements:
        assert statements.execute(_PID, {})


def test_a_statement_that_is_interrupted_costs_its_connection_only(
    one_connection: "sessionmaker[Session]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit of a task interrupts it while the server is busy. Nobody waits for the server then."""

    def interrupt(*_: object, **__: object) -> Any:
        raise TimeoutError

    with pytest.raises(TimeoutError), begin(one_connection) as statements:
        (before,) = statements.execute(_PID, {})
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "wait", interrupt)
            connection = statements._connection
            connection.pgconn.send_query(b"SELECT pg_sleep(20)")
            connection.wait(None)  # type: ignore[arg-type]
    with begin(one_connection) as statements:
        (after,) = statements.execute(_PID, {})
    assert after.pid != before.pid


def test_a_session_after_statements_can_roll_back(one_connection: "sessionmaker[Session]") -> None:
    with autocommit(one_connection) as statements:
        statements.execute(_PID, {})
    with one_connection() as session:
        OpenTransaction.of(session).execute(_MAKE, {"name": "of a session"})
        session.rollback()
    with autocommit(one_connection) as statements:
        assert statements.execute(_FIND, {"name": "of a session"}) == []


def test_errors_are_those_of_a_session(one_connection: "sessionmaker[Session]") -> None:
    with autocommit(one_connection) as statements:
        with pytest.raises(DataError):
            statements.execute("SELECT %(text)s::date AS day", {"text": "no date"})
        statements.execute(_MAKE, {"name": "there"})
        with pytest.raises(IntegrityError):
            statements.execute(_MAKE, {"name": "there"})
    with pytest.raises(OperationalError), autocommit(unreachable()):
        pass


def unreachable() -> "sessionmaker[Session]":
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    return make_sessionmaker(make_engine(url, pool_size=1, max_overflow=0, application_name="direct"))


@pytest.mark.parametrize("context", [autocommit, begin])
def test_a_connection_that_died_is_replaced(
    one_connection: "sessionmaker[Session]",
    migrated: Settings,
    context: _Opens,
) -> None:
    with pytest.raises(OperationalError), context(one_connection) as statements:
        (row,) = statements.execute(_PID, {})
        with psycopg.connect(migrated.database_url) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [row.pid])
        statements.execute(_PID, {})
    with context(one_connection) as statements:
        assert statements.execute(_PID, {})[0].pid != row.pid


def test_a_commit_that_is_lost_is_an_error(
    one_connection: "sessionmaker[Session]", migrated: Settings
) -> None:
    with pytest.raises(OperationalError), begin(one_connection) as statements:
        statements.execute(_MAKE, {"name": "lost"})
        (row,) = statements.execute(_PID, {})
        with psycopg.connect(migrated.database_url) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [row.pid])
    with autocommit(one_connection) as statements:
        assert statements.execute(_FIND, {"name": "lost"}) == []


def test_values_are_never_parts_of_the_statement(one_connection: "sessionmaker[Session]") -> None:
    name = make_customer(one_connection).operations_team
    with autocommit(one_connection) as statements:
        assert [row.name for row in statements.execute(_FIND, {"name": name})] == [name]
        assert statements.execute(_FIND, {"name": f"{name}' OR 'a' = 'a"}) == []
