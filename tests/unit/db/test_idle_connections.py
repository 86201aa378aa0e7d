"""`db.make_engine` replaces closed connections without checking every connection before each use."""

from unittest.mock import patch

import psycopg
import pytest
from sqlalchemy import Engine, text

from migration_service.db import engine as db


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
    with (
        patch.object(db, "TRUSTED_FOR", 60.0),
        pytest.raises(Exception, match="terminating connection"),
    ):
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
