"""Applying the revisions of the database's tables."""

import logging
import time

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from migration_service.db.engine import make_engine

logger = logging.getLogger(__name__)

#: Two services that start at once must not both apply a revision.
_LOCK_KEY = 7_361_204
#: Seconds that a revision waits for the lock on a table. Everybody who comes after it waits behind it: this
#: is shorter than what a request waits for a lock, so that a revision that has to wait fails nobody.
LOCK_SECONDS = 2.0
#: Seconds between two tries, in which everybody else gets through.
PAUSE_SECONDS = 3.0
#: Seconds after which a revision that got no lock is given up.
PATIENCE_SECONDS = 300.0


#: What the service may do. The revisions' own table says what is there, and is only read.
_GRANTS = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
    "REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM {role}",
)


class RevisionsBlockedError(Exception):
    """Another transaction held a table for too long; the tables are as they were."""


def alembic_config(connection: Connection) -> Config:
    """Alembic's configuration for an open connection: no file is needed."""
    config = Config()
    config.set_main_option("script_location", "migration_service:alembic")
    config.attributes["connection"] = connection
    return config


def upgrade(
    database_url: str,
    revision: str = "head",
    *,
    pooler: bool = False,
    patience: float = PATIENCE_SECONDS,
    runtime_role: str | None = None,
) -> None:
    """Bring the tables to `revision`, in one transaction; nothing happens where they are there already.

    `runtime_role` is the role that the service has, if it is not the one of `database_url`. It is granted
    what the service needs: rows of every table, and no change of a table.

    A table that a long transaction holds is tried again and again for `patience` seconds.
    Raises RevisionsBlockedError if it was in vain.
    """
    engine = make_engine(
        database_url, pool_size=1, max_overflow=0, application_name="revisions", pooler=pooler
    )
    try:
        until = time.monotonic() + patience
        while not _upgrade_once(engine, revision, runtime_role):
            if time.monotonic() >= until:
                raise RevisionsBlockedError(
                    f"Another transaction held a table for {patience:.0f} seconds, and nothing was changed. "
                    "The oldest by xact_start in pg_stat_activity is the one to look at."
                )
            logger.warning("A revision waits for a table that another transaction holds.")
            time.sleep(PAUSE_SECONDS)
    finally:
        engine.dispose()


def _upgrade_once(engine: Engine, revision: str, runtime_role: str | None) -> bool:
    """Whether the tables are at `revision` now; False if one was held by somebody else."""
    try:
        with engine.begin() as connection:
            # Its statements may run as long as they need; and another upgrade is waited for, however long.
            connection.execute(text("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
            connection.execute(text(f"SET LOCAL lock_timeout = {int(LOCK_SECONDS * 1000)}"))
            command.upgrade(alembic_config(connection), revision)
            if runtime_role and runtime_role != engine.url.username:
                _grant(connection, runtime_role)
    except OperationalError as error:
        if isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            return False
        raise
    return True


def _grant(connection: Connection, runtime_role: str) -> None:
    role = connection.dialect.identifier_preparer.quote(runtime_role)
    for grant in _GRANTS:
        connection.execute(text(grant.format(role=role)))


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
