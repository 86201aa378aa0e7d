"""`migration-service go-live`."""

from datetime import UTC, datetime

import click

from migration_service.cli.output import json_option, show_done
from migration_service.cli.session import open_session, read_settings
from migration_service.services.undo.go_live import set_live


@click.command("go-live")
@click.argument("supplier")
@click.option(
    "--at",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]),
    metavar="MOMENT",
    help="When, as 2026-03-01T06:00:00Z.  [default: now]",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def go_live(supplier: str, at: datetime | None, yes: bool, as_json: bool) -> None:
    """Set when SUPPLIER goes live, and its accounts can no longer be undone.

    A moment in the future can be changed until it comes. After that it is final.
    """
    if not yes and at is None:
        click.confirm(
            f"Can the accounts of {supplier!r} no longer be undone from now on?", abort=True, err=True
        )
    with open_session(read_settings()) as session:
        live_at = set_live(session, supplier, at)
    record = {"import_supplier": supplier, "live_at": live_at}
    sentence = f"Import supplier {supplier!r} goes live at {live_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC."
    show_done(record, as_json, sentence)
