"""`migration-service revisions`."""

from dataclasses import replace

import click
from psycopg.errors import InsufficientPrivilege
from sqlalchemy.exc import ProgrammingError

from migration_service.cli.output import json_option, show_done, show_record
from migration_service.cli.session import CannotRunError, open_sessions, read_settings
from migration_service.config import Settings
from migration_service.db.engine import parse_database_url
from migration_service.db.needed_tables import NEEDED, current_revision
from migration_service.db.revisions import CannotUpgradeError, upgrade

_NOT_NEEDED = ("secret_key", "redis_url")


@click.group()
def revisions() -> None:
    """Bring the database tables up to date."""


@revisions.command("upgrade")
@json_option
def upgrade_tables(as_json: bool) -> None:
    """Apply all missing revisions in one transaction.

    Running processes work with the new tables: apply the revisions first, then replace the processes.
    Upgrades that run at the same time wait for each other. If a table is in use, the command retries every
    two seconds, so that other queries are not blocked for longer. It gives up after five minutes with the
    exit status 2.
    """
    settings = read_settings(without=_NOT_NEEDED)
    before = _current(settings)
    try:
        upgrade(
            settings.owner_database_url or settings.database_url,
            pooler=settings.database_pooler,
            runtime_role=parse_database_url(settings.database_url).username,
        )
    except CannotUpgradeError as error:
        raise CannotRunError(str(error)) from error
    except ProgrammingError as error:
        if not isinstance(error.orig, InsufficientPrivilege):
            raise
        raise CannotRunError(
            "The role of DATABASE_URL may not change tables. Name the one that owns them in "
            "MIGRATION_SERVICE_OWNER_DATABASE_URL."
        ) from error
    after = _current(settings)
    sentence = f"The tables are at revision {after}" + (" already." if before == after else " now.")
    show_done({"before": before, "after": after}, as_json, sentence)


@revisions.command()
@json_option
def current(as_json: bool) -> None:
    """Show the revision of the tables and the newest one. The exit status is 1 if they differ."""
    found = _current(read_settings(without=_NOT_NEEDED))
    show_record({"current": found, "newest": NEEDED}, as_json)
    if found != NEEDED:
        raise click.exceptions.Exit(1)


def _current(settings: Settings) -> str | None:
    owner = replace(settings, database_url=settings.owner_database_url or settings.database_url)
    with open_sessions(owner) as sessions, sessions() as session:
        # Not committed: an empty database has no function that leaves a mark.
        return current_revision(session.connection())
