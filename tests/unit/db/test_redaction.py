"""Errors of the database and the server's own log have no values of rows."""

import traceback
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.sql import OpenTransaction, begin
from support.servers import EmbeddedServers

MARKED = "Xaveria-Marked"

_STATEMENTS = [
    "SELECT CAST('{v}' AS jsonb)",
    "SELECT CAST('{v}' AS numeric)",
    """SELECT CAST('{{"a": "{v} \\u0000"}}' AS jsonb) ->> 'a'""",
    "CREATE TEMP TABLE t (a text PRIMARY KEY) ON COMMIT DROP; INSERT INTO t VALUES ('{v}'), ('{v}')",
    "CREATE TEMP TABLE t (a text CHECK (a = '')) ON COMMIT DROP; INSERT INTO t VALUES ('{v}')",
]


@pytest.fixture
def sessions(embedded_servers: EmbeddedServers) -> Iterator[sessionmaker[Session]]:
    """Sessions of the owner of the database, who may make a table."""
    engine = make_engine(embedded_servers.owner_url, pool_size=1, max_overflow=0, application_name="tests")
    yield make_sessionmaker(engine)
    engine.dispose()


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_an_error_of_a_session_has_no_value(sessions: sessionmaker[Session], statement: str) -> None:
    with pytest.raises(DBAPIError) as caught, sessions.begin() as session:
        session.connection().exec_driver_sql(statement.format(v=MARKED))
    assert MARKED not in str(caught.value.orig)
    assert caught.value.orig is not None
    assert getattr(caught.value.orig, "sqlstate", "") in str(caught.value)
    assert MARKED not in str(caught.value).partition("[SQL:")[0]


def test_a_parameter_is_in_no_part_of_an_error_of_any_way_to_the_database(
    sessions: sessionmaker[Session],
) -> None:
    with pytest.raises(DBAPIError) as of_session, sessions.begin() as session:
        session.execute(text("SELECT CAST(:value AS jsonb)"), {"value": MARKED})
    with pytest.raises(DBAPIError) as of_hot_path, begin(sessions) as transaction:
        transaction.execute("SELECT CAST(%(value)s AS jsonb)", {"value": MARKED})
    with pytest.raises(DBAPIError) as of_copy, sessions.begin() as session:
        session.execute(text("CREATE TEMP TABLE t (a numeric) ON COMMIT DROP"))
        with OpenTransaction.of(session).copy("COPY t FROM STDIN") as copy:
            copy.write_row((MARKED,))
    for caught in (of_session, of_hot_path, of_copy):
        assert MARKED not in "".join(traceback.format_exception(caught.value))


def test_the_constraint_that_was_violated_is_named(sessions: sessionmaker[Session]) -> None:
    with pytest.raises(DBAPIError, match="t_pkey"), sessions.begin() as session:
        session.connection().exec_driver_sql(_STATEMENTS[3].format(v=MARKED))


def test_the_log_of_the_embedded_server_has_no_statement_detail_or_context(
    sessions: sessionmaker[Session], embedded_servers: EmbeddedServers
) -> None:
    for statement in _STATEMENTS[2:]:
        with pytest.raises(DBAPIError), sessions.begin() as session:
            session.connection().exec_driver_sql(statement.format(v=MARKED))
    told = embedded_servers.log.read_text(errors="replace")
    assert "LOG:" in told
    assert MARKED not in told
