"""The revisions create exactly the tables of the models, and can be reverted."""

import logging
import threading
from collections.abc import Iterator

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

from migration_service.db import revisions
from migration_service.db.engine import make_engine
from migration_service.db.revisions import (
    CannotUpgradeError,
    alembic_config,
    current_revision,
    newest_revision,
    upgrade,
)
from migration_service.models import Account
from support.servers import EmbeddedServers, wait_until

# The lock of a transaction that has written a line. A foreign key to the table has to wait for it.
WRITE_LOCK = text("LOCK TABLE import_supplier IN ROW EXCLUSIVE MODE")


@pytest.fixture
def engine(embedded_servers: EmbeddedServers) -> Iterator[Engine]:
    """A new, empty database."""
    with embedded_servers.new_database() as (_, owner_url):
        engine = make_engine(owner_url, pool_size=1, max_overflow=1, application_name="tests")
        yield engine
        engine.dispose()


def _url(engine: Engine) -> str:
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def test_a_new_database_has_the_tables_of_the_models(engine: Engine) -> None:
    upgrade(_url(engine))
    upgrade(_url(engine))  # the second time there is nothing to do
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Account.metadata) == []


def test_no_constraint_is_deferred_so_that_a_dry_run_finds_every_error(engine: Engine) -> None:
    upgrade(_url(engine))
    with engine.connect() as connection:
        deferrable = connection.execute(text("SELECT conname FROM pg_constraint WHERE condeferrable"))
        assert deferrable.all() == []


def test_each_revision_can_be_taken_back_and_applied_again(engine: Engine) -> None:
    upgrade(_url(engine))
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    upgrade(_url(engine))
    with engine.connect() as connection:
        assert "account_import_process" in inspect(connection).get_table_names()
        assert connection.scalar(text("SELECT concurrency_limit FROM service_limit")) == 250


def test_a_revision_does_not_wait_forever_for_a_long_transaction(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revisions, "LOCK_SECONDS", 0.1)
    upgrade(_url(engine), "0001")
    with engine.connect() as somebody:
        somebody.execute(WRITE_LOCK)
        with pytest.raises(CannotUpgradeError, match="nothing was changed"):
            upgrade(_url(engine), timeout=0)
        assert current_revision(somebody) == "0001"


def test_other_sessions_continue_while_a_revision_waits_and_it_is_applied_afterwards(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(revisions, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(revisions, "PAUSE_SECONDS", 0.1)
    caplog.set_level(logging.WARNING)
    upgrade(_url(engine), "0001")
    waiting = threading.Thread(target=upgrade, args=[_url(engine)])
    with engine.connect() as somebody:
        somebody.execute(WRITE_LOCK)
        waiting.start()
        wait_until(lambda: "a table that another transaction holds" in caplog.text, "the revision waits")
        with engine.begin() as another:
            another.execute(WRITE_LOCK)
    waiting.join()
    with engine.connect() as connection:
        assert current_revision(connection) == newest_revision()


def test_a_revision_gives_up_sooner_than_a_request_that_waits_behind_it(engine: Engine) -> None:
    with engine.connect() as connection:
        allowed = connection.scalar(text("SELECT setting::int FROM pg_settings WHERE name = 'lock_timeout'"))
    assert allowed > revisions.LOCK_SECONDS * 1000
