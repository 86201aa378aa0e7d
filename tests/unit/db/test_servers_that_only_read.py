"""The primary server becomes read-only, as after a switch-over."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from flask import Flask
from flask.testing import FlaskClient
from psycopg import sql
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db.engine import make_engine, make_sessionmaker, parse_database_url
from migration_service.db.sql import autocommit, begin
from migration_service.doctor.diagnosis import Verdict
from migration_service.doctor.examination import check_database
from support.supplier_client import SupplierClient

WRITE = "UPDATE service_limit SET concurrency_limit = concurrency_limit"


@pytest.fixture
def engine(migrated: Settings) -> Iterator[Engine]:
    engine = make_engine(migrated.database_url, pool_size=3, max_overflow=0, application_name="switched")
    yield engine
    engine.dispose()


@pytest.fixture
def own_sessions(engine: Engine) -> sessionmaker[Session]:
    return make_sessionmaker(engine)


@contextmanager
def only_reading(settings: Settings) -> Iterator[None]:
    """Let all new transactions be read-only within the `with` statement, also those of open connections."""
    name = sql.Identifier(str(parse_database_url(settings.database_url).username))
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        role = sql.SQL("ALTER ROLE {} {} default_transaction_read_only {}")
        connection.execute(role.format(name, sql.SQL("SET"), sql.SQL("= on")))
        try:
            yield
        finally:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(role.format(name, sql.SQL("RESET"), sql.SQL("")))


def process_id(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.scalar(text("SELECT pg_backend_pid()")))


def become_a_reader(engine: Engine) -> None:
    """Let every connection of the pool be to a read-only server."""
    connections = [engine.connect() for _ in range(3)]
    for connection in connections:
        connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
        connection.commit()
        connection.close()


def test_a_session_that_cannot_write_discards_all_connections_of_its_pool(
    engine: Engine, own_sessions: sessionmaker[Session]
) -> None:
    become_a_reader(engine)
    with pytest.raises(OperationalError, match="read-only transaction"), own_sessions.begin() as session:
        session.execute(text(WRITE))
    for _ in range(3):
        with own_sessions.begin() as session:
            session.execute(text(WRITE))


@pytest.mark.parametrize("opened", [autocommit, begin])
def test_a_statement_that_cannot_write_discards_all_connections_of_its_pool(
    engine: Engine, own_sessions: sessionmaker[Session], opened: type
) -> None:
    become_a_reader(engine)
    statement = f"{WRITE} RETURNING 1"
    with pytest.raises(OperationalError, match="read-only transaction"), opened(own_sessions) as statements:
        statements.execute(statement, {})
    held = [engine.connect() for _ in range(3)]  # all at the same time, so that each is another connection
    for connection in held:
        connection.execute(text(WRITE))
        connection.rollback()
        connection.close()


def test_a_connection_whose_server_shuts_down_is_discarded(
    engine: Engine, own_sessions: sessionmaker[Session], migrated: Settings
) -> None:
    before = process_id(engine)
    with psycopg.connect(migrated.database_url) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [before])
    with pytest.raises(OperationalError), begin(own_sessions) as statements:
        statements.execute("SELECT 1", {})
    assert process_id(engine) != before


def test_the_service_answers_503_and_is_not_ready_while_the_server_only_reads(
    app: Flask, supplier: SupplierClient, migrated: Settings
) -> None:
    client = app.test_client()
    assert client.get("/health/ready").status_code == 200
    (account,) = supplier.accounts()
    with only_reading(migrated):
        _renew_connections(client, migrated)
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json["database"]) == (503, "read-only")  # type: ignore[index]
        refused = supplier.stage(account)
        assert (refused.status_code, refused.json["code"]) == (503, "service_unavailable")  # type: ignore[index]
    _renew_connections(client, migrated)
    assert client.get("/health/ready").status_code == 200
    assert supplier.stage(account).status_code == 201


def _renew_connections(client: FlaskClient, settings: Settings) -> None:
    """Let the web application connect again, because the setting of a role applies to new connections."""
    with psycopg.connect(settings.database_url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'migration-web'"
        )
    client.get("/health/ready")  # finds its connection closed, and discards it


def test_of_several_hosts_the_one_that_can_write_is_used(migrated: Settings) -> None:
    url = parse_database_url(migrated.database_url)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = (
            f"postgresql://{url.username}:{url.password}@127.0.0.1:{nobody.getsockname()[1]},"
            f"{url.host}:{url.port}/{url.database}?target_session_attrs=read-write"
        )
        engine = make_engine(address, pool_size=1, max_overflow=0, application_name="several")
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT inet_server_port()")) == url.port
        engine.dispose()
    with only_reading(migrated):
        engine = make_engine(address, pool_size=1, max_overflow=0, application_name="several")
        with pytest.raises(OperationalError, match="read-only"), engine.connect():
            pass
        engine.dispose()


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("postgresql://u:p@one:1,two/n?sslmode=require", ("one:1", "two:5432")),
        ("postgresql://u:p%40x@[::1]:1,two:2/n", ("[::1]:1", "two:2")),
    ],
)
def test_addresses_with_several_hosts_are_understood(address: str, hosts: tuple[str, ...]) -> None:
    url = parse_database_url(address)
    assert (url.username, url.database, url.normalized_query["host"]) == ("u", "n", hosts)


def test_an_address_with_one_host_is_understood_as_before() -> None:
    url = parse_database_url("postgresql://u:p,q@one:1/n")
    assert (url.host, url.port, url.password) == ("one", 1, "p,q")


def test_the_doctor_reports_that_the_server_only_reads(migrated: Settings) -> None:
    class Parts:
        settings = migrated
        sessions = make_sessionmaker(
            make_engine(migrated.database_url, pool_size=1, max_overflow=0, application_name="doctor")
        )

    with only_reading(migrated):
        (found,) = check_database(Parts)  # type: ignore[arg-type]
        assert "answers, and only reads: default_transaction_read_only is on" in found.seen
        assert found.verdict is Verdict.WRONG
    Parts.sessions.kw["bind"].dispose()
    (found,) = check_database(Parts)  # type: ignore[arg-type]
    assert found.verdict is Verdict.OK
    Parts.sessions.kw["bind"].dispose()
