"""The connection that listens: what it is told of, in which order, and when it refuses to prove anything."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

from migration_service.app import KEPT_STATEMENTS
from migration_service.config import Settings
from migration_service.db.engine import make_engine
from migration_service.db.reference_data.lease import Lease
from migration_service.db.reference_data.listener import (
    CHANNEL,
    WATCHED,
    ChangeListener,
    ListeningConnection,
    UnsuitableError,
)
from migration_service.db.reference_data.reader import ReferenceReader
from migration_service.db.statements import autocommit
from migration_service.services.access.tokens import FIND_CALLER, obtain_tokens, refresh_tokens
from migration_service.services.setup.suppliers import FIND_SUPPLIER
from support.factories import Customer
from support.servers import EmbeddedServers, wait_until
from unit.db.reference_data.pooler import Pooler

_KEY = "key"

_CHANGES = (
    "UPDATE api_key SET revoked_at = now() WHERE prefix = :prefix",
    "UPDATE api_key SET expires_at = now() WHERE prefix = :prefix",
    "UPDATE api_key SET scopes = '{read}' WHERE prefix = :prefix",
    "UPDATE api_key SET import_supplier_ids = '{1}' WHERE prefix = :prefix",
    "UPDATE api_key SET allowed_networks = '{10.0.0.0/8}' WHERE prefix = :prefix",
    "UPDATE token_session SET ended_at = now()",
    "DELETE FROM token_session",
    "UPDATE import_supplier SET status = 'Paused' WHERE code = :code",
    "UPDATE import_supplier SET profile = 'strict' WHERE code = :code",
    "UPDATE import_supplier SET sends_customer_emails = true WHERE code = :code",
    "UPDATE import_supplier SET time_zone = 'UTC' WHERE code = :code",
    "UPDATE organisation SET name = name || ' B.V.' WHERE id = :organisation_id",
)
_NO_CHANGES = (
    "UPDATE api_key SET last_used_at = now() WHERE prefix = :prefix",
    "UPDATE api_key SET name = 'nightly' WHERE prefix = :prefix",
    "UPDATE import_supplier SET live_at = now() WHERE code = :code",
    "UPDATE operations_team SET name = name || ' 2' WHERE organisation_id IS NULL",
)


@pytest.fixture
def lease() -> Lease:
    """A lease whose clock stands still: it holds once it was extended."""
    return Lease(1.0, lambda: 0.0)


@contextmanager
def _listen(url: str, lease: Lease) -> Iterator[ListeningConnection]:
    with psycopg.connect(url) as connection:
        listening = ListeningConnection(connection, lease)
        listening.begin()
        yield listening


@pytest.fixture
def listening(migrated: Settings, lease: Lease) -> Iterator[ListeningConnection]:
    """A connection that listens, with a lease that holds."""
    with _listen(migrated.database_url, lease) as listening:
        listening.extend()
        yield listening


def _keep(lease: Lease) -> None:
    lease.keep(_KEY, [("old",)], lease.begin_look_up(), lease.server)
    assert lease.find(_KEY) is not None


def _values(customer: Customer) -> dict[str, Any]:
    return {
        "prefix": customer.prefix,
        "code": customer.import_supplier,
        "organisation_id": customer.organisation_id,
    }


def _log_in(sessions: sessionmaker[Session], settings: Settings, customer: Customer) -> str:
    with sessions.begin() as session:
        return obtain_tokens(session, settings, customer.api_key).refresh_token


@pytest.mark.parametrize("change", _CHANGES)
def test_a_round_trip_that_begins_after_a_commit_drops_what_was_kept(
    change: str,
    sessions: sessionmaker[Session],
    customer: Customer,
    lease: Lease,
    listening: ListeningConnection,
) -> None:
    _keep(lease)
    with sessions.begin() as session:
        session.execute(text(change), _values(customer))
        listening.extend()
        assert lease.find(_KEY) is not None, "dropped before the commit"
    listening.extend()
    assert lease.find(_KEY) is None


@pytest.mark.parametrize("change", ["TRUNCATE api_key CASCADE", "TRUNCATE token_session CASCADE"])
def test_the_owner_of_a_table_can_empty_it(
    change: str, migrated: Settings, lease: Lease, listening: ListeningConnection
) -> None:
    _keep(lease)
    with psycopg.connect(migrated.owner_database_url) as owner:
        owner.execute(change)
    listening.extend()
    assert lease.find(_KEY) is None


@pytest.mark.parametrize("change", _NO_CHANGES)
def test_what_no_request_depends_on_drops_nothing(
    change: str,
    sessions: sessionmaker[Session],
    customer: Customer,
    lease: Lease,
    listening: ListeningConnection,
) -> None:
    _keep(lease)
    with sessions.begin() as session:
        session.execute(text(change), _values(customer))
    listening.extend()
    assert lease.find(_KEY) is not None


def test_logging_in_and_refreshing_drop_nothing(
    sessions: sessionmaker[Session],
    migrated: Settings,
    customer: Customer,
    lease: Lease,
    listening: ListeningConnection,
) -> None:
    _keep(lease)
    token = _log_in(sessions, migrated, customer)
    with sessions.begin() as session:
        refresh_tokens(session, migrated, token)
    listening.extend()
    assert lease.find(_KEY) is not None


def test_a_change_that_is_rolled_back_drops_nothing(
    sessions: sessionmaker[Session], customer: Customer, lease: Lease, listening: ListeningConnection
) -> None:
    _keep(lease)
    with sessions() as session:
        session.execute(text(_CHANGES[0]), _values(customer))
        session.rollback()
    listening.extend()
    assert lease.find(_KEY) is not None


def test_a_change_is_known_without_a_round_trip(
    sessions: sessionmaker[Session], customer: Customer, lease: Lease, listening: ListeningConnection
) -> None:
    _keep(lease)
    with sessions.begin() as session:
        session.execute(text(_CHANGES[0]), _values(customer))
    wait_until(lambda: listening.receive(1.0), "the notification")
    assert lease.find(_KEY) is None


def test_every_column_that_is_kept_notifies(migrated: Settings) -> None:
    """PostgreSQL says which columns a statement reads: it is asked as for the definition of a view."""
    with psycopg.connect(migrated.owner_database_url) as owner:
        for number, statement in enumerate(KEPT_STATEMENTS):
            definition = re.sub(r"%\(\w+\)s", "NULL", statement)
            owner.execute(f"CREATE VIEW reads_{number} AS {definition}")
        read = set(
            owner.execute(
                "SELECT table_name, column_name FROM information_schema.view_column_usage"
                " WHERE view_name LIKE 'reads\\_%'"
            )
        )
        notify = set(
            owner.execute(
                "SELECT event_object_table, event_object_column"
                " FROM information_schema.triggered_update_columns WHERE trigger_name = 'reference_changed'"
            )
        )
        owner.rollback()
    assert ("api_key", "revoked_at") in read
    assert read - notify == set()
    assert {table for table, _ in notify} == set(WATCHED)


# The acts of one look-up, one change and the listener. The steps of an act happen in their order.
_ACTS = ("look up", "look up", "look up", "change", "change", "listen", "listen")


def test_no_order_of_a_look_up_and_a_change_leaves_an_old_row_under_a_new_lease(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer, lease: Lease
) -> None:
    orders = sorted(set(permutations(_ACTS)))
    assert len(orders) == 210
    outcomes = set()
    with (
        psycopg.connect(migrated.database_url) as writer,
        psycopg.connect(migrated.database_url, autocommit=True) as reader,
        _listen(migrated.database_url, lease) as listening,
    ):
        for number, order in enumerate(orders):
            values = {"code": customer.import_supplier, "root": f"{number}"}
            outcomes.add(_try(order, values, (writer, reader), lease, listening))
    # Otherwise the orders would show nothing.
    assert outcomes == {"nothing kept", "new row kept", "old row kept and the change not proven"}


def _try(
    order: tuple[str, ...],
    values: dict[str, str],
    connections: "tuple[psycopg.Connection[Any], psycopg.Connection[Any]]",
    lease: Lease,
    listening: ListeningConnection,
) -> str:
    """Try one order, in which the supplier's document root becomes `root`. Return what is kept afterwards."""
    writer, reader = connections
    root = values["root"]
    listening.extend()
    lease.drop()
    steps = {
        "look up": _look_up(reader, lease, values),
        "change": iter(
            (
                lambda: writer.execute(
                    "UPDATE import_supplier SET document_root = %(root)s WHERE code = %(code)s", values
                ),
                writer.commit,
            )
        ),
        "listen": iter((listening.extend, listening.extend)),
    }
    committed = proven = False
    for act in order:
        done = next(steps[act])
        done()
        committed = committed or done == writer.commit
        proven = proven or (committed and act == "listen")
        found = lease.find(_KEY)
        assert not (proven and found and found[0] != (root,)), order
    found = lease.find(_KEY)
    if found is None:
        return "nothing kept"
    return "new row kept" if found[0] == (root,) else "old row kept and the change not proven"


def _look_up(
    reader: "psycopg.Connection[Any]", lease: Lease, values: dict[str, str]
) -> Iterator[Callable[[], Any]]:
    kept: dict[str, Any] = {}
    select = "SELECT document_root FROM import_supplier WHERE code = %(code)s"
    yield lambda: kept.update(look_up=lease.begin_look_up())
    yield lambda: kept.update(rows=reader.execute(select, values).fetchall())
    yield lambda: lease.keep(_KEY, kept["rows"], kept["look_up"], lease.server)


def test_a_connection_that_was_cut_off_proves_nothing(
    sessions: sessionmaker[Session], migrated: Settings, lease: Lease
) -> None:
    with psycopg.connect(migrated.database_url) as connection:
        listening = ListeningConnection(connection, lease)
        listening.begin()
        with sessions.begin() as session:
            session.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": connection.info.backend_pid})
        with pytest.raises(psycopg.OperationalError):
            listening.extend()
    assert not lease.holds


def test_a_round_trip_that_was_frozen_for_longer_than_the_lease_proves_nothing(migrated: Settings) -> None:
    clock = [0.0]

    class _Frozen(psycopg.Connection[Any]):
        def execute(self, *arguments: Any, **options: Any) -> Any:
            done = super().execute(*arguments, **options)
            clock[0] += 30
            return done

    lease = Lease(1.0, lambda: clock[0])
    with _Frozen.connect(migrated.database_url) as connection:
        listening = ListeningConnection(connection, lease)
        listening.begin()
        listening.extend()
    assert not lease.holds


@pytest.mark.parametrize("forgets", ["UNLISTEN *", "DISCARD ALL"])
def test_a_connection_that_does_not_listen_any_more_proves_nothing(
    forgets: str, migrated: Settings, lease: Lease
) -> None:
    with psycopg.connect(migrated.database_url) as connection:
        listening = ListeningConnection(connection, lease)
        listening.begin()
        connection.execute(forgets)
        with pytest.raises(UnsuitableError, match="did not come back"):
            listening.extend()
    assert not lease.holds


@pytest.mark.parametrize(
    ("forwards_notifications", "forwards_cancel_key", "reason"),
    [(False, True, "did not come back"), (True, False, "a pooler is in between")],
)
def test_a_pooler_proves_nothing(
    migrated: Settings,
    lease: Lease,
    forwards_notifications: bool,
    forwards_cancel_key: bool,
    reason: str,
) -> None:
    url = make_url(migrated.database_url)
    with Pooler(
        url.host or "127.0.0.1",
        url.port or 5432,
        forwards_notifications=forwards_notifications,
        forwards_cancel_key=forwards_cancel_key,
    ) as pooler:
        through = url.set(host="127.0.0.1", port=pooler.port, query={"sslmode": "disable"})
        with (
            pytest.raises(UnsuitableError, match=reason),
            _listen(through.render_as_string(hide_password=False), lease) as listening,
        ):
            listening.extend()
    assert not lease.holds


def test_tables_that_do_not_notify_prove_nothing(
    migrated: Settings, lease: Lease, listening: ListeningConnection
) -> None:
    with psycopg.connect(migrated.owner_database_url, autocommit=True) as owner:
        owner.execute("ALTER TABLE import_supplier DISABLE TRIGGER reference_changed")
        try:
            with pytest.raises(UnsuitableError, match="apply the newest revision"):
                listening.extend()
        finally:
            owner.execute("ALTER TABLE import_supplier ENABLE TRIGGER reference_changed")


@pytest.fixture
def reader(migrated: Settings, sessions: sessionmaker[Session], lease: Lease) -> Iterator[ReferenceReader]:
    engine = make_engine(migrated.database_url, pool_size=1, max_overflow=0, application_name="listens")
    reader = ReferenceReader(sessions, (FIND_SUPPLIER,), lease, ChangeListener(engine, lease))
    yield reader
    reader.close()


def _read(reader: ReferenceReader, customer: Customer) -> list[Any]:
    return reader.execute(FIND_SUPPLIER, {"code": customer.import_supplier})


def test_the_listener_keeps_rows_and_finds_a_new_connection_after_the_old_one(
    sessions: sessionmaker[Session],
    customer: Customer,
    lease: Lease,
    reader: ReferenceReader,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    first = _read(reader, customer)
    wait_until(lambda: lease.holds, "the first lease")
    assert (second := _read(reader, customer)) == first
    assert _read(reader, customer) is second
    with sessions.begin() as session:
        session.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'listens'")
        )
        session.execute(text(_CHANGES[7]), _values(customer))
    wait_until(lambda: _read(reader, customer)[0].status == "Paused", "the change")
    wait_until(lambda: lease.holds, "the next lease")
    wait_until(lambda: "kept in memory again" in caplog.text, "a line of the log")
    assert caplog.text.count("are looked up in each request, because the listening connection failed") == 1


def test_rows_from_a_server_that_is_not_listened_to_are_looked_up_each_time(
    sessions: sessionmaker[Session], customer: Customer, lease: Lease
) -> None:
    """After a failover, connections of the pool may still lead to the old server."""

    class _NeverStarted(ChangeListener):
        def start(self) -> None:
            pass

    reader = ReferenceReader(sessions, (FIND_SUPPLIER,), lease, _NeverStarted(sessions.kw["bind"], lease))
    lease.begin("another server")
    lease.extend(0.0)
    assert _read(reader, customer) is not _read(reader, customer)
    with autocommit(sessions) as statements:
        ((server,),) = statements.execute("SELECT pg_postmaster_start_time()", {})
    lease.begin(server)
    lease.extend(0.0)
    assert _read(reader, customer) is _read(reader, customer)


def test_what_is_not_found_is_not_kept(customer: Customer, lease: Lease, reader: ReferenceReader) -> None:
    _read(reader, customer)
    wait_until(lambda: lease.holds, "the lease")
    missing = {"code": "not there"}
    assert reader.execute(FIND_SUPPLIER, missing) is not reader.execute(FIND_SUPPLIER, missing)


def test_a_statement_that_is_not_listed_is_sent_each_time(
    lease: Lease, customer: Customer, reader: ReferenceReader
) -> None:
    _read(reader, customer)
    wait_until(lambda: lease.holds, "the lease")
    values = {"prefix": customer.prefix, "session_id": None}
    assert reader.execute(FIND_CALLER, values) is not reader.execute(FIND_CALLER, values)


def test_the_connection_is_closed_with_the_listener(
    sessions: sessionmaker[Session], customer: Customer, lease: Lease, reader: ReferenceReader
) -> None:
    def connections() -> Any:
        with sessions() as session:
            return session.scalar(
                text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'listens'")
            )

    _read(reader, customer)
    wait_until(lambda: lease.holds, "the lease")
    assert connections() == 1
    reader.close()
    wait_until(lambda: connections() == 0, "the end of the connection")


def test_the_channel_is_the_one_of_the_revision(migrated: Settings, listening: ListeningConnection) -> None:
    with psycopg.connect(migrated.database_url, autocommit=True) as other:
        other.execute("SELECT pg_notify(%s, '')", [CHANNEL])
    wait_until(lambda: (CHANNEL, "") in listening.receive(1.0), "the notification")


def test_a_server_of_its_own_that_is_restarted_ends_the_lease() -> None:
    lease = Lease(1.0, lambda: 0.0)
    with EmbeddedServers() as servers:
        servers.upgrade()
        with psycopg.connect(servers.database_url) as connection:
            listening = ListeningConnection(connection, lease)
            listening.begin()
            before = lease.server
            servers.kill("postgres")
            with pytest.raises(psycopg.OperationalError):
                # The process of the connection may live a moment longer.
                wait_until(listening.extend, "the end of the connection")
        servers.start("postgres")
        with _listen(servers.database_url, lease) as listening:
            listening.extend()
            assert lease.holds
            assert lease.server != before
