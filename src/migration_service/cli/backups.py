"""`migration-service backups`."""

import click

from migration_service.cli.output import json_option, show_done, show_record
from migration_service.cli.session import open_session, read_settings
from migration_service.services.setup.backups import find_last_backup, record_backup


@click.group()
def backups() -> None:
    """Say when a backup was taken, so that its age is watched."""


@backups.command()
@json_option
def taken(as_json: bool) -> None:
    """Tell the service that a backup of its database has just been taken.

    Run it at the end of what takes backups. The metric `migration_backup_age_seconds` counts from now.
    """
    with open_session(read_settings()) as session:
        record_backup(session)
    show_done({"taken": True}, as_json, "The age of the last backup counts from now.")


@backups.command()
@json_option
def show(as_json: bool) -> None:
    """Show when the last backup was taken."""
    with open_session(read_settings()) as session:
        at = find_last_backup(session)
    show_record({"taken_at": at if at or as_json else "never, as far as the service was told"}, as_json)
