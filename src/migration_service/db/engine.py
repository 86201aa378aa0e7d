"""The database engine, one for each process, for PostgreSQL only."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any, cast

import psycopg
import psycopg._queries
from psycopg.pq import TransactionStatus
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.exc import InvalidatePoolError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db.known_commits import KnownCommit
from migration_service.db.redaction import hide_values_of

# jit: compiling the large INSERT of account creation takes 0.6 s and gains nothing. The time-outs end the
# transaction of a disconnected client, so that its row locks are released.
_SERVER_SETTINGS = {
    "jit": "off",
    "timezone": "UTC",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
}

# Psycopg looks for the parameters of a longer statement anew each time, lest an ORM's long statements, which
# all differ, fill its memory. Ours are constants: staging has 7,000 characters, and account creation 20,000.
psycopg._queries.MAX_CACHED_STATEMENT_LENGTH = 50_000

#: The longest time of a statement, for whose result a request may not be waiting any more.
STATEMENT_SECONDS, STATEMENT_SECONDS_OF_REQUESTS = 60, 10

#: read_only_sql_transaction, admin_shutdown, crash_shutdown, cannot_connect_now, and what pgbouncer says of
#: these, protocol_violation: after a switch-over, the connected server is no longer the primary.
_NOT_THE_PRIMARY = ("25006", "57P01", "57P02", "57P03", "08P01")
#: True on a standby, and on a server that was made read-only.
ONLY_READS = "SELECT pg_is_in_recovery() OR CAST(current_setting('transaction_read_only') AS bool)"
#: The key in a connection's `info` that marks it after such an error. Its pool is renewed.
NOT_THE_PRIMARY = "not_the_primary"

# A server that only reads has no timeline of its own to write on.
_READ = """
    SELECT system_identifier,
        CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END
    FROM pg_control_system()"""

#: Seconds of idleness after which a connection is tested before it is used.
TRUSTED_FOR = 1.0


def parse_database_url(database_url: str) -> URL:
    """Return the parts of `postgresql://user:password@host:port,host:port/name?option=value`.

    Any libpq option may follow, such as `sslmode` and `sslrootcert` for TLS, and
    `target_session_attrs=read-write` for several hosts with one primary. Raise ValueError or ArgumentError if
    the URL is not valid.
    """
    before, at, after = database_url.rpartition("@")
    hosts, _, rest = after.partition("/")
    if not at or "," not in hosts:
        return make_url(database_url)
    url = make_url(f"{before}@/{rest}")
    listed = tuple(host if ":" in host else f"{host}:5432" for host in hosts.split(","))
    return url.update_query_dict({"host": listed}, append=True)


def is_not_the_primary(error: BaseException | None) -> bool:
    """Whether a statement failed because the server is read-only or shut down."""
    return getattr(error, "sqlstate", None) in _NOT_THE_PRIMARY


def is_primary_gone(error: BaseException | None) -> bool:
    """Whether a statement failed because the server is not the primary, or does not answer any more."""
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return True  # not an answer of a server
    return is_not_the_primary(error)


def make_engine(
    database_url: str,
    *,
    pool_size: int,
    max_overflow: int,
    application_name: str,
    pooler: bool = False,
    statement_seconds: int = STATEMENT_SECONDS,
    kind: "type[psycopg.Connection[Any]]" = psycopg.Connection,
) -> Engine:
    """Return an engine for `database_url`, which connects on first use. `postgresql://` means psycopg 3.

    `pooler` means that connections go through a pgbouncer in transaction mode, which may give each
    transaction another connection. No statements are prepared then, and the settings above must be set on the
    database role (docs/operators/scaling.md). `kind` is the class of the connections: a KnownCommit looks up
    what became of a COMMIT whose answer was lost.
    """
    settings = {**_SERVER_SETTINGS, "statement_timeout": f"{statement_seconds}s"}
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    session: dict[str, Any] = {"prepare_threshold": None} if pooler else {"options": options}
    engine = create_engine(
        parse_database_url(database_url).set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_timeout=5,
        # The most recently used connection comes first, because its server process has warm caches and plans.
        pool_use_lifo=True,
        pool_reset_on_return=None,  # done by _roll_back_open_transactions
        hide_parameters=True,  # errors in the log must not contain values of an account
        connect_args={
            **session,
            "application_name": application_name,
            # For each host. A server that has lost its network is given up after ten seconds.
            "connect_timeout": 2,
            "keepalives_idle": 4,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
    )
    _connect_to_the_newest_primary(engine, kind)
    hide_values_of(engine)
    _roll_back_open_transactions(engine)
    _open_transactions_for_sessions(engine)
    _ping_idle_connections(engine)
    _leave_servers_that_do_not_write(engine)
    return engine


def service_engine(
    settings: Settings,
    application_name: str,
    *,
    pool_size: int = 1,
    max_overflow: int = 1,
    statement_seconds: int = STATEMENT_SECONDS,
    kind: "type[psycopg.Connection[Any]]" = psycopg.Connection,
) -> Engine:
    """Return an engine for the database in the settings."""
    return make_engine(
        settings.database_url,
        pool_size=pool_size,
        max_overflow=max_overflow,
        application_name=application_name,
        pooler=settings.database_pooler,
        statement_seconds=statement_seconds,
        kind=kind,
    )


def _connect_to_the_newest_primary(engine: Engine, kind: "type[psycopg.Connection[Any]]") -> None:
    timelines = _Timelines()

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, args: Any, options: Any) -> "psycopg.Connection[Any]":
        connection = timelines.check(lambda: kind.connect(*args, **options))
        if isinstance(connection, KnownCommit):
            connection.reconnect = lambda: timelines.check(
                lambda: psycopg.Connection.connect(*args, **options)
            )
        return connection


class _Timelines:
    """The greatest timeline that the connections of an engine have seen (decision 8).

    A primary whose host was frozen goes on for some seconds after it was replaced, and answers from the past.
    It writes on the timeline that it had, and each promotion begins a greater one.
    """

    def __init__(self) -> None:
        self._database = 0
        self._greatest = ""
        # Between comparing and remembering, another thread may meet the new primary.
        self._lock = Lock()

    def check(self, connect: "Callable[[], psycopg.Connection[Any]]") -> "psycopg.Connection[Any]":
        """Return a new connection. Raise OperationalError if its server was replaced by another primary."""
        connection = connect()
        try:
            self._compare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _compare(self, connection: "psycopg.Connection[Any]") -> None:
        connection.autocommit = True
        try:
            [(database, timeline)] = connection.execute(_READ).fetchall()
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege):
            return  # as of some hosted servers, which replace their primary in their own way
        finally:
            if not connection.closed:
                connection.autocommit = False
        if timeline is None:
            return
        with self._lock:
            if database == self._database and timeline < self._greatest:
                raise psycopg.OperationalError(
                    f"The server writes on timeline {timeline}, and was replaced by a primary on timeline "
                    f"{self._greatest}. If an older backup was restored, restart the service."
                )
            self._database, self._greatest = database, timeline


def _leave_servers_that_do_not_write(engine: Engine) -> None:
    """Discard all connections if one finds that its server is read-only, as after a switch-over.

    New connections go to the current target of the address. The error is an OperationalError, like all errors
    of an unavailable database.
    """

    @event.listens_for(engine, "handle_error", retval=True)
    def discard(context: ExceptionContext) -> BaseException | None:
        original = context.original_exception
        if not is_not_the_primary(original):
            return None
        context.is_disconnect = True
        return OperationalError(context.statement, None, original, hide_parameters=True)


def _roll_back_open_transactions(engine: Engine) -> None:
    """Roll back the transaction that a connection rarely leaves open when it returns to the pool."""

    @event.listens_for(engine, "reset")
    def roll_back(connection: "psycopg.Connection[Any]", _record: Any, _state: Any) -> None:
        if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.rollback()


def _open_transactions_for_sessions(engine: Engine) -> None:
    """Let sessions open transactions on connections used earlier by `sql.autocommit`.

    That function leaves them in autocommit mode, because it uses them more often.
    """

    @event.listens_for(engine, "engine_connect")
    def open_transactions(connection: Connection) -> None:
        end_autocommit(cast("psycopg.Connection[Any]", connection.connection.driver_connection))


def end_autocommit(connection: "psycopg.Connection[Any]") -> None:
    """Let later statements open a transaction."""
    if connection.autocommit:
        connection.autocommit = False


def _ping_idle_connections(engine: Engine) -> None:
    """Ping connections like `pool_pre_ping`, except those that were used a moment ago.

    A restarting database server is unavailable for longer than that. Pinging busy connections would cost
    every request a round trip without ever finding anything.
    """

    left_at = 0.0

    @event.listens_for(engine, "checkin")
    def note_time(connection: Any, record: Any) -> None:
        nonlocal left_at
        record.info["idle_since"] = time.monotonic()
        is_closed = connection is not None and connection.closed
        if record.info.pop(NOT_THE_PRIMARY, False) or is_closed:
            left_at = record.info["idle_since"]

    @event.listens_for(engine, "checkout")
    def ping_if_idle(connection: Any, record: Any, _proxy: Any) -> None:
        since = record.info.get("idle_since")
        if since is not None and since <= left_at:
            raise InvalidatePoolError
        if since is None or time.monotonic() - since < TRUSTED_FOR:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            # Every older connection is discarded, and a new one is opened.
            raise InvalidatePoolError from error


def make_sessionmaker(engine: Engine) -> sessionmaker[Session]:
    """Return a sessionmaker whose objects stay readable after the commit, for rendering the response."""
    return sessionmaker(engine, expire_on_commit=False)
