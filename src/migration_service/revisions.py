"""Applying the revisions of the database's tables."""

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from migration_service.db import make_engine

#: Two services that start at once must not both apply a revision.
_LOCK_KEY = 7_361_204


def alembic_config(connection: Connection) -> Config:
    """Alembic's configuration for an open connection: no file is needed."""
    config = Config()
    config.set_main_option("script_location", "migration_service:alembic")
    config.attributes["connection"] = connection
    return config


def upgrade(database_url: str, revision: str = "head") -> None:
    """Bring the tables to `revision`, in one transaction; nothing happens where they are there already."""
    engine = make_engine(database_url, pool_size=1, max_overflow=0, application_name="revisions")
    with engine.begin() as connection:
        # A revision may wait longer than a request for a lock, and may run as long as it needs.
        connection.execute(text("SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        command.upgrade(alembic_config(connection), revision)
    engine.dispose()


def current_revision(connection: Connection) -> str | None:
    """The revision that the tables are at; None where there are none yet."""
    return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str:
    """The revision that this version of the service brings the tables to."""
    config = Config()
    config.set_main_option("script_location", "migration_service:alembic")
    head = ScriptDirectory.from_config(config).get_current_head()
    if head is None:
        raise RuntimeError("The service was installed without its revisions.")
    return head
