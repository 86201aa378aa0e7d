"""The database engine: one for each process, PostgreSQL only."""

import time
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.discretion import hide_values_of

# jit: compiling the large INSERT of account creation takes 0.6 s and gains nothing.
# The time-outs end a transaction whose client was cut off, so that its row locks are released.
_SERVER_SETTINGS = {
    "jit": "off",
    "timezone": "UTC",
    "lock_timeout": "5s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
}

#: Seconds. A connection that was idle for longer is tested before it is used.
_TRUSTED_FOR = 1.0


def make_engine(
    database_url: str, *, pool_size: int, max_overflow: int, application_name: str, pooler: bool = False
) -> Engine:
    """Return an engine for `database_url`. `postgresql://` means psycopg 3. It connects on first use.

    `pooler` says that connections go through a pgbouncer in transaction mode, which gives each transaction
    another connection. Then no statement is prepared, and the settings above must be set on the database role
    (docs/operators/scaling.md).
    """
    options = " ".join(f"-c {name}={value}" for name, value in _SERVER_SETTINGS.items())
    session: dict[str, Any] = {"prepare_threshold": None} if pooler else {"options": options}
    engine = create_engine(
        make_url(database_url).set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_timeout=5,
        hide_parameters=True,  # an error in the log must not show values of an account
        connect_args={
            **session,
            "application_name": application_name,
            "connect_timeout": 5,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
        },
    )
    hide_values_of(engine)
    _ping_idle_connections(engine)
    return engine


def _ping_idle_connections(engine: Engine) -> None:
    """Do what `pool_pre_ping` does, but skip connections that were used a moment ago.

    A database server that restarts is unavailable for longer than a moment. Pinging a busy connection would
    cost every request a round trip, and never find anything.
    """

    @event.listens_for(engine, "checkin")
    def note_time(_connection: Any, record: Any) -> None:
        record.info["idle_since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping_if_idle(connection: Any, record: Any, _proxy: Any) -> None:
        since = record.info.get("idle_since")
        if since is None or time.monotonic() - since < _TRUSTED_FOR:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            # Every older connection is discarded, and a new one is opened.
            raise InvalidatePoolError from error


def make_sessionmaker(engine: Engine) -> sessionmaker[Session]:
    """Return a sessionmaker whose objects stay readable after the commit, when the response is rendered."""
    return sessionmaker(engine, expire_on_commit=False)
