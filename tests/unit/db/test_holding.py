"""Threads that wait for a server that is away or only reads, and rows in memory."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from flask import Flask
from flask.testing import FlaskClient
from psycopg import sql
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db import holding, known_commits, reference
from migration_service.db.engine import make_engine, make_sessionmaker, parse_database_url
from migration_service.db.holding import Outage
from migration_service.db.reference import ReferenceReader
from migration_service.db.sql import autocommit, begin
from migration_service.doctor.diagnosis import Verdict
from migration_service.doctor.examination import check_database
from support.servers import wait_until
from support.supplier_client import SupplierClient


class Server:
    """A server that is away until `back` is set."""

    def __init__(self) -> None:
        self.back = threading.Event()
        self.asked = 0

    def answers(self) -> bool:
        self.asked += 1
        return self.back.is_set()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def pool(server: Server) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool
        server.back.set()


def later() -> float:
    return time.monotonic() + 60


def test_all_go_on_when_one_is_answered(server: Server, pool: ThreadPoolExecutor) -> None:
    outage = Outage(server.answers)
    waiting = [pool.submit(outage.wait, later()) for _ in range(3)]
    wait_until(lambda: server.asked, "a thread asks")
    assert outage.is_on()
    server.back.set()
    assert [it.result(60) for it in waiting] == [True] * 3
    assert not outage.is_on()


def test_few_wait_for_a_server_that_has_been_away_for_long(
    server: Server, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "HELD_IN_LONG_OUTAGES", 2)
    outage = Outage(server.answers)
    first = pool.submit(outage.wait, later())
    wait_until(outage.is_on, "the outage begins")
    monkeypatch.setattr(known_commits, "HOLD_SECONDS", 0.0)
    assert not outage.wait(time.monotonic()), "its time is over, and it leaves its place"
    second = pool.submit(outage.wait, later())
    wait_until(lambda: outage._places._value == 0, "both places are taken")
    assert not outage.wait(later())
    assert outage._places._value == 0, "it gives no place back, for it had none"
    server.back.set()
    assert first.result(60)
    assert second.result(60)
    assert outage.wait(later()), "the next outage has just begun"


WRITE = "UPDATE service_limit SET concurrency_limit = concurrency_limit"


@pytest.fixture
def engine(migrated: Settings) -> Iterator[Engine]:
    engine = make_engine(migrated.database_url, pool_size=3, max_overflow=0, application_name="switched")
    yield engine
    engine.dispose()


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


def _write_in_session(sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        session.execute(text(WRITE))


def _write_directly(opened: Any, sessions: sessionmaker[Session]) -> None:
    with opened(sessions) as statements:
        statements.execute(f"{WRITE} RETURNING 1", {})


@pytest.mark.parametrize(
    "write", [_write_in_session, partial(_write_directly, autocommit), partial(_write_directly, begin)]
)
def test_a_write_to_a_server_that_only_reads_discards_all_connections_of_its_pool(
    engine: Engine, write: Callable[[sessionmaker[Session]], None]
) -> None:
    for connection in [engine.connect() for _ in range(3)]:
        connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
        connection.commit()
        connection.close()
    with pytest.raises(OperationalError, match="read-only transaction"):
        write(make_sessionmaker(engine))
    held = [engine.connect() for _ in range(3)]  # all at the same time, so that each is another connection
    for connection in held:
        connection.execute(text(WRITE))
        connection.rollback()
        connection.close()


def test_the_service_answers_503_and_is_not_ready_while_the_server_only_reads(
    app: Flask, supplier: SupplierClient, migrated: Settings
) -> None:
    client = app.test_client()
    assert client.get("/health/ready").status_code == 200
    account, staged = supplier.accounts(2)
    assert supplier.stage(staged).status_code == 201
    with only_reading(migrated):
        _renew_connections(client, migrated)
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json["database"]) == (503, "read-only")  # type: ignore[index]
        refused = supplier.stage(account)
        assert (refused.status_code, refused.json["code"]) == (503, "service_unavailable")  # type: ignore[index]
        with patch.object(Outage, "wait", return_value=False) as wait:
            assert supplier.process(staged["external_account_number"]).status_code == 503
        assert wait.call_count == 1, "it is held once, although its first step is repeated by itself"
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
    ("address", "password", "hosts"),
    [
        ("postgresql://u:p@one:1,two/n?sslmode=require", "p", ("one:1", "two:5432")),
        ("postgresql://u:p%40x@[::1]:1,two:2/n", "p@x", ("[::1]:1", "two:2")),
        ("postgresql://u:p,q@one:1/n", "p,q", None),
    ],
)
def test_addresses_with_one_host_or_several_are_understood(
    address: str, password: str, hosts: tuple[str, ...] | None
) -> None:
    url = parse_database_url(address)
    assert (url.username, url.password, url.database) == ("u", password, "n")
    if hosts:
        assert url.normalized_query["host"] == hosts
    else:
        assert (url.host, url.port) == ("one", 1)


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


#: Has another answer each time that it is sent.
_ROW = "SELECT %(key)s::int AS key, clock_timestamp() AS sent_at"
_ENDING_ROW = "SELECT clock_timestamp() AS sent_at, %(left)s::float8 AS seconds_left"


class _Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def reader(sessions: sessionmaker[Session], clock: _Clock) -> ReferenceReader:
    return ReferenceReader(sessions, (_ROW, _ENDING_ROW), 1.0, clock)


def _read(reader: ReferenceReader, statement: str = _ROW, values: Mapping[str, Any] | None = None) -> Any:
    return reader.execute(statement, {"key": 1} if values is None else values)


def test_rows_are_used_for_a_second(reader: ReferenceReader, clock: _Clock) -> None:
    first = _read(reader)
    clock.seconds += 0.999
    assert _read(reader) == first
    clock.seconds += 0.001
    assert _read(reader) != first


def test_the_second_counts_from_the_beginning_of_the_look_up(
    sessions: sessionmaker[Session], reader: ReferenceReader, clock: _Clock
) -> None:
    def freeze(*_: object) -> None:
        clock.seconds += 1

    event.listen(sessions.kw["bind"], "checkin", freeze)
    try:
        first = _read(reader)
    finally:
        event.remove(sessions.kw["bind"], "checkin", freeze)
    assert _read(reader) != first


def test_rows_that_expire_earlier_are_not_used_longer(reader: ReferenceReader, clock: _Clock) -> None:
    first = _read(reader, _ENDING_ROW, {"left": 0.5})
    assert _read(reader, _ENDING_ROW, {"left": 0.5}) == first
    clock.seconds += 0.5
    assert _read(reader, _ENDING_ROW, {"left": 0.5}) != first
    kept = _read(reader, _ENDING_ROW, {"left": None})
    clock.seconds += 0.999
    assert _read(reader, _ENDING_ROW, {"left": None}) == kept


def test_what_is_not_found_is_looked_up_again(sessions: sessionmaker[Session], clock: _Clock) -> None:
    find = "SELECT id FROM organisation WHERE name = %(name)s"
    reader = ReferenceReader(sessions, (find,), 1.0, clock)
    assert reader.execute(find, {"name": "later"}) == []
    with sessions.begin() as session:
        session.connection().exec_driver_sql("INSERT INTO organisation (name) VALUES ('later')")
    assert len(reader.execute(find, {"name": "later"})) == 1


def test_other_statements_are_sent_each_time(reader: ReferenceReader) -> None:
    other = "SELECT clock_timestamp() AS sent_at"
    assert _read(reader, other, {}) != _read(reader, other, {})


def test_nothing_is_kept_for_zero_seconds(sessions: sessionmaker[Session], clock: _Clock) -> None:
    reader = ReferenceReader(sessions, (_ROW,), 0.0, clock)
    assert _read(reader) != _read(reader)


def test_who_revokes_waits_longer_than_rows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(reference, "KEPT_SECONDS", 1.0)
    reference.wait_until_known()
    assert slept[0] > 1.0
