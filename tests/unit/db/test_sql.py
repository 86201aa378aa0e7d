"""SqlConnection without a Session, idle connections, pieces, and the types of statements."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, text
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db import engine as db
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.pieces import LONGEST_PIECE, PIECE_BYTES, Scales, first_rows, in_pieces, weight_of
from migration_service.db.sql import OpenTransaction, autocommit, begin
from migration_service.models import AccountImportProcess, Attempt
from migration_service.services.processing.attempts import run_attempt
from support.factories import make_customer
from support.servers import EmbeddedServers
from support.supplier_client import SupplierClient

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
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    engine = make_engine(url, pool_size=1, max_overflow=0, application_name="direct")
    with pytest.raises(OperationalError), autocommit(make_sessionmaker(engine)):
        pass


@pytest.mark.parametrize("context", [autocommit, begin])
def test_a_connection_that_died_is_replaced(
    one_connection: "sessionmaker[Session]", migrated: Settings, context: _Opens
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


@pytest.fixture
def engine(database_url: str) -> Engine:
    return db.make_engine(database_url, pool_size=2, max_overflow=0, application_name="rested")


def _process_id(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.scalar(text("SELECT pg_backend_pid()")))


def _end_connections(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rested'"
        )


def test_an_idle_connection_that_was_closed_is_replaced_before_it_is_used(
    engine: Engine, database_url: str
) -> None:
    first = _process_id(engine)
    _end_connections(database_url)
    with patch.object(db, "TRUSTED_FOR", 0.0):
        assert _process_id(engine) != first
    engine.dispose()


def test_a_recently_used_connection_that_was_closed_fails_once_and_the_pool_is_replaced(
    engine: Engine, database_url: str
) -> None:
    with engine.connect() as one, engine.connect() as two:
        assert one.scalar(text("SELECT 1")) == two.scalar(text("SELECT 1"))
    _end_connections(database_url)
    with patch.object(db, "TRUSTED_FOR", 60.0), pytest.raises(Exception, match="terminating connection"):
        _process_id(engine)
    assert _process_id(engine)
    assert _process_id(engine)
    engine.dispose()


def test_what_a_connection_leaves_open_is_rolled_back(engine: Engine) -> None:
    pooled = engine.raw_connection()
    pooled.cursor().execute("SET LOCAL lock_timeout = '1234ms'")
    pooled.close()
    with engine.connect() as connection:
        assert connection.scalar(text("SHOW lock_timeout")) != "1234ms"
    engine.dispose()


@given(
    lengths=st.lists(
        st.sampled_from([0, 1, 900, PIECE_BYTES - 1, PIECE_BYTES, 3 * LONGEST_PIECE]), max_size=40
    ),
    at_once=st.integers(1, 400),
)
def test_every_row_is_written_once_and_pieces_are_short(lengths: list[int], at_once: int) -> None:
    held: list[int] = []

    def read(after: int) -> list[int]:
        held.append(after)
        return [*range(after, min(after + at_once, len(lengths)))]

    pieces = list(in_pieces(read, lambda row: b"%d" % (row % 10) * lengths[row], lambda row: row + 1, 0))
    assert b"".join(pieces) == b"".join(b"%d" % (row % 10) * it for row, it in enumerate(lengths))
    assert b"" not in pieces
    for piece in pieces:
        # What is longer is the end of a row.
        assert len(piece) < LONGEST_PIECE or len(piece) - LONGEST_PIECE < max(lengths)
    assert all(len(it) >= PIECE_BYTES for it in pieces[:-1])


def test_rows_are_read_by_what_they_weigh_and_at_least_one(embedded_servers: EmbeddedServers) -> None:
    """Whether a value is stored as it is, compressed in its row or apart, or not compressed."""
    noise = random.Random(4).randbytes(20_000).hex()
    engine = make_engine(embedded_servers.owner_url, pool_size=1, max_overflow=0, application_name="tests")
    with make_sessionmaker(engine).begin() as session:
        session.execute(text("CREATE TABLE weighed (id int, value jsonb)"))
        values = ['"a"', f'"{noise}"', f"[{'[],' * 500_000}0]", *['"b"'] * 5]
        for number, value in enumerate(values):
            session.execute(
                text("INSERT INTO weighed VALUES (:id, CAST(:value AS jsonb))"),
                {"id": number, "value": value},
            )

        def chosen(most: int, *, after: int = -1, limit: int = 100) -> list[int]:
            weighed = f"SELECT id, {weight_of('value')} AS weight"
            rows = f"{weighed} FROM weighed WHERE id > {after} ORDER BY id LIMIT {limit}"
            found = session.execute(text(first_rows(rows, "id", most))).all()
            assert all(row.in_all == min(limit, len(values) - 1 - after) for row in found)
            return [row.id for row in found]

        assert chosen(100) == [0, 1]
        assert chosen(1) == chosen(100, limit=1) == [0]
        assert chosen(1, after=0) == [1]
        assert chosen(39_000, after=0) == [1]
        assert chosen(1_000_000, after=0)[:2] == [1, 2]
        # A sixtieth is stored of what is 1.5 MB, and it counts for a part of that.
        assert chosen(50_000, after=1) == [2]
        assert chosen(1_000, after=2) == [3, 4, 5, 6, 7]
        assert chosen(1_000, after=2, limit=2) == [3, 4]
        assert chosen(10, after=7) == []
        session.rollback()
    engine.dispose()


@pytest.mark.parametrize("weights", [[400_000] * 30, [5_000_000] * 4, [70_000, 900_000, 3_000_000] * 6])
def test_what_is_decoded_at_once_is_bounded(weights: list[int]) -> None:
    scales, held, most, lock = Scales(1_000_000), 0, 0, threading.Lock()

    def decode(weight: int) -> None:
        nonlocal held, most
        with scales.holding(weight):
            with lock:
                held += weight
                most = max(most, held)
            threading.Event().wait(0.001)
            with lock:
                held -= weight

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(decode, weights))
    assert held == 0
    assert most <= max(1_000_000, *weights)
    with scales.holding(5_000_000), scales.holding(60_000):
        pass  # what is light does not wait


def test_without_a_transaction_no_account_is_created(
    supplier: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)
    assert supplier.process(number, dry_run=True).status_code == 202
    attempt_id = supplier.current_attempt(number)
    with autocommit(sessions) as statements, pytest.raises(AttributeError, match="lock"):
        run_attempt(statements, attempt_id)  # type: ignore[arg-type]
    with sessions() as session:
        attempt = session.get_one(Attempt, attempt_id)
        process = session.get_one(AccountImportProcess, attempt.account_import_process_id)
        assert (attempt.outcome, process.state, process.service_account_number) == (None, "IN_PROGRESS", None)
