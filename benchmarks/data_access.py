"""The time of a short statement, for each way to send it: `python -m benchmarks.data_access DATABASE_URL`.

These are the measurements of decision 6. The database may be empty. Each round sends the statement once in
each way, so that a busy machine slows all of them alike. The ratios of one run say more than its
microseconds.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.statements import autocommit, begin

_ROUNDS = 4_000
#: One row by a unique index, as for the look-up of a token.
_FIND = "SELECT oid, relname FROM pg_class WHERE relname = %(name)s AND relnamespace = 11"
_FIND_TEXT = text(_FIND.replace("%(name)s", ":name"))
_VALUES = {"name": "pg_class"}


def by_psycopg(connection: "psycopg.Connection[Any]") -> None:
    """Send it through psycopg alone, on its own connection. This is the lower bound."""
    connection.execute(_FIND, _VALUES).fetchall()


def by_statements(sessions: sessionmaker[Session]) -> None:
    """Send it through `db.statements.autocommit`."""
    with autocommit(sessions) as statements:
        statements.execute(_FIND, _VALUES)


def by_transaction(sessions: sessionmaker[Session]) -> None:
    """Send it through `db.statements.begin`."""
    with begin(sessions) as transaction:
        transaction.execute(_FIND, _VALUES)


def by_core_autocommit(engine: Engine) -> None:
    """Send the SQL text through a Core connection of an engine on AUTOCOMMIT."""
    with engine.connect() as connection:
        connection.exec_driver_sql(_FIND, _VALUES).all()


def by_core(engine: Engine) -> None:
    """Send it through a Core connection, with BEGIN and COMMIT."""
    with engine.begin() as connection:
        connection.execute(_FIND_TEXT, _VALUES).all()


def by_session(sessions: sessionmaker[Session]) -> None:
    """Send it through a Session, with BEGIN and COMMIT."""
    with sessions.begin() as session:
        session.execute(_FIND_TEXT, _VALUES).all()


def measure(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the median of each way in microseconds."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_ROUNDS):
        for name, send in ways.items():
            started = time.perf_counter()
            send()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def main(database_url: str) -> None:
    """Print the median of each way, and its ratio to psycopg alone."""
    engine = make_engine(database_url, pool_size=1, max_overflow=0, application_name="data-access")
    on_autocommit = make_engine(database_url, pool_size=1, max_overflow=0, application_name="data-access")
    on_autocommit.update_execution_options(isolation_level="AUTOCOMMIT")
    sessions = make_sessionmaker(engine)
    with psycopg.connect(database_url, autocommit=True) as connection:
        medians = measure(
            {
                "psycopg alone": partial(by_psycopg, connection),
                "Statements (autocommit)": partial(by_statements, sessions),
                "Core, AUTOCOMMIT, exec_driver_sql": partial(by_core_autocommit, on_autocommit),
                "Transaction (begin)": partial(by_transaction, sessions),
                "Core": partial(by_core, engine),
                "Session": partial(by_session, sessions),
            }
        )
    lowest = medians["psycopg alone"]
    for name, median in medians.items():
        print(f"{name:35} {median:6.0f} us   {median / lowest:4.1f}")
    engine.dispose()
    on_autocommit.dispose()


if __name__ == "__main__":
    main(*sys.argv[1:])
