"""The revisions make exactly the tables that the models describe, and can be taken back."""

from collections.abc import Iterator

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

from migration_service.db import make_engine
from migration_service.models import Account
from migration_service.revisions import alembic_config, upgrade
from servers import EmbeddedServers


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An empty database of its own."""
    with EmbeddedServers() as servers:
        engine = make_engine(servers.database_url, pool_size=1, max_overflow=1, application_name="tests")
        yield engine
        engine.dispose()


def _url(engine: Engine) -> str:
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def test_a_fresh_database_has_what_the_models_describe(engine: Engine) -> None:
    upgrade(_url(engine))
    upgrade(_url(engine))  # again: nothing to do
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Account.metadata) == []


def test_each_revision_can_be_taken_back_and_applied_again(engine: Engine) -> None:
    upgrade(_url(engine))
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    upgrade(_url(engine))
    with engine.connect() as connection:
        assert "account_import_process" in inspect(connection).get_table_names()
        assert connection.scalar(text("SELECT concurrency_limit FROM service_limit")) == 250
