"""Applying the revisions of the database schema."""

import logging
import time

from alembic import command
from alembic.config import Config
from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from migration_service.db import known_commits
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.holding import is_lost, repeat
from migration_service.db.needed_tables import current_revision, obstacle

logger = logging.getLogger(__name__)

#: The advisory lock that keeps two starting services from applying the same revision.
_LOCK_KEY = 7_361_204
#: Seconds for which a revision waits for the lock on a table, while later queries queue behind it. Requests
#: wait longer than this for a lock, so a waiting revision makes no request fail.
LOCK_SECONDS = 2.0
#: Seconds between two attempts, in which other queries get the lock.
PAUSE_SECONDS = 3.0
#: Seconds after which a revision fails without the lock.
TIMEOUT_SECONDS = 300.0

#: The privileges of the service. It only reads the table of revisions, and only adds to the audit, without
#: the columns that the database sets. A temporary table could stand in for one that a function reads.
_GRANTS = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
    "REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM {role}",
    "REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON audit_entry, audit_day FROM {role}",
    "GRANT INSERT (actor_kind, actor, organisation_id, address, request_id, action, subject_kind, subject, "
    "outcome, code, details, once) ON audit_entry TO {role}",
    "REVOKE CREATE ON SCHEMA public FROM PUBLIC, {role}",
    "REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC, {role}",
)


class CannotUpgradeError(Exception):
    """The tables cannot be upgraded. Nothing was changed."""


def upgrade(
    database_url: str,
    revision: str = "head",
    *,
    pooler: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    runtime_role: str | None = None,
) -> None:
    """Upgrade the tables to `revision` in one transaction, unless they are at it already.

    `runtime_role` is the role of the service, if it is not that of `database_url`. It is granted access to
    the rows of every table, but no changes of tables.

    If a long transaction holds the lock on a table, this is retried for `timeout` seconds. Raise
    CannotUpgradeError if the lock is still held then, if this version cannot upgrade the tables, or if no
    server can be written to. After a COMMIT whose answer was lost, the tables are looked at again.
    """
    engine = make_engine(
        database_url, pool_size=1, max_overflow=0, application_name="revisions", pooler=pooler
    )
    try:
        until = time.monotonic() + timeout
        sessions = make_sessionmaker(engine)
        while not repeat(sessions, lambda: _upgrade_once(engine, revision, runtime_role)):
            if time.monotonic() >= until:
                raise CannotUpgradeError(
                    f"Another transaction held the lock on a table for {timeout:.0f} seconds, so nothing was "
                    "changed. Expected no transaction that runs for so long. Find the one with the oldest "
                    "xact_start in pg_stat_activity, and end it or retry after it."
                )
            logger.warning("A revision waits for a table that another transaction holds.")
            time.sleep(PAUSE_SECONDS)
    except OperationalError as error:
        if not is_lost(sessions, error):
            raise
        raise CannotUpgradeError(
            f"No PostgreSQL that can be written to answers within {known_commits.HOLD_SECONDS:g} seconds: "
            f"{error.orig}"
        ) from error
    finally:
        engine.dispose()


def _upgrade_once(engine: Engine, revision: str, runtime_role: str | None) -> bool:
    """Return whether the tables are at `revision` now. False means that another transaction locked one."""
    try:
        with engine.begin() as connection:
            # No time-outs: statements may be slow, and this waits for another upgrade, however long that
            # takes.
            connection.execute(text("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
            connection.execute(text(f"SET LOCAL lock_timeout = {int(LOCK_SECONDS * 1000)}"))
            found = current_revision(connection)
            if reason := obstacle(found):
                raise CannotUpgradeError(f"The tables are at revision {found}. {reason}")
            config = Config()  # needs no file
            config.set_main_option("script_location", "migration_service:alembic")
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            if runtime_role and runtime_role != engine.url.username:
                _grant(connection, runtime_role)
    except OperationalError as error:
        if isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            return False
        raise
    return True


def _grant(connection: Connection, runtime_role: str) -> None:
    quote = connection.dialect.identifier_preparer.quote
    names = {"role": quote(runtime_role), "database": quote(str(connection.engine.url.database))}
    for grant in _GRANTS:
        connection.execute(text(grant.format_map(names)))
