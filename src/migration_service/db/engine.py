"""The database: one engine and one sessionmaker a process, PostgreSQL only.

The edge (a view, a task, a command) owns the transaction: `with Session.begin() as session:`.
"""

import os
import time
from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    DateTime,
    Engine,
    MetaData,
    Numeric,
    Text,
    any_,
    create_engine,
    event,
    literal,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import make_url
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

# jit: compiling the large INSERT of account creation costs 0.6 s and gains nothing.
# The time-outs end a transaction whose owner was cut off, so that its row locks go.
_SERVER_SETTINGS = {
    "jit": "off",
    "timezone": "UTC",
    "lock_timeout": "5s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
}

#: Seconds. A connection that rested for longer is asked whether it still lives before it is used.
_TRUSTED_FOR = 1.0


class Base(DeclarativeBase):
    """The base of every model; its metadata carries the naming convention of constraints."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text,
        int: BigInteger,
        datetime: DateTime(timezone=True),
        # No precision: a NUMERIC of its own keeps every digit that was sent, 12.30 included.
        Decimal: Numeric,
        list[str]: ARRAY(Text),
        list[Decimal]: ARRAY(Numeric),
        dict[str, Any]: JSONB,
        list[Any]: JSONB,
    }


def one_of(column: ColumnElement[Any], values: Collection[Any]) -> ColumnElement[bool]:
    """Whether the column has one of these values. One parameter however many: IN has a limit of 65,535."""
    return column == any_(literal(list(values), ARRAY(column.type)))


def make_engine(
    database_url: str, *, pool_size: int, max_overflow: int, application_name: str, pooler: bool = False
) -> Engine:
    """An engine for `database_url`; `postgresql://` means psycopg 3. Connects on first use.

    `pooler`: there is a pgbouncer in transaction mode between, which hands each transaction another
    connection. Nothing is prepared then, and the settings below are the database role's
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
    _ping_rested_connections(engine)
    return engine


def _ping_rested_connections(engine: Engine) -> None:
    """What `pool_pre_ping` does, without asking a connection that answered a moment ago.

    A server that comes back was away for longer than a moment, so that one ping for each busy connection
    is a round trip for each request that never finds anything.
    """

    @event.listens_for(engine, "checkin")
    def note_rest(_connection: Any, record: Any) -> None:
        record.info["rests_since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping_if_rested(connection: Any, record: Any, _proxy: Any) -> None:
        since = record.info.get("rests_since")
        if since is None or time.monotonic() - since < _TRUSTED_FOR:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            # Everything that is older than this moment is thrown away, and a new connection made.
            raise InvalidatePoolError from error


def make_sessionmaker(engine: Engine) -> sessionmaker[Session]:
    """Sessions whose objects stay readable after the commit (the response is rendered then)."""
    return sessionmaker(engine, expire_on_commit=False)


def new_id() -> UUID:
    """A UUID of version 7: in the order of time, which keeps the index of a million rows compact."""
    value = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10))
    return UUID(int=value & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62)
