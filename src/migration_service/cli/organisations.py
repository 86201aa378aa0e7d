"""`migration-service organisations`."""

import json
from dataclasses import replace

import click
from sqlalchemy.exc import ArgumentError

from migration_service.cli.output import Record, json_option, show_done, show_list
from migration_service.cli.session import CannotRunError, open_session, open_sessions, read_settings
from migration_service.config import Settings
from migration_service.db.engine import parse_database_url
from migration_service.db.reference import wait_until_known
from migration_service.models import Organisation
from migration_service.services.cells.moving import (
    map_keys,
    move_organisation,
    remove_moved_organisation,
    reopen_organisation,
)
from migration_service.services.setup.organisations import create_organisation, list_organisations

_CELL = ("database_url", "address")


@click.group()
def organisations() -> None:
    """Manage organisations, which own API keys and import suppliers."""


@organisations.command()
@click.argument("name")
@json_option
def create(name: str, as_json: bool) -> None:
    """Create an organisation."""
    with open_session(read_settings()) as session:
        record = _record(create_organisation(session, name))
    show_done(record, as_json, f"Organisation {name!r} was created.")


@organisations.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all organisations."""
    with open_session(read_settings()) as session:
        records = [_record(organisation) for organisation in list_organisations(session)]
    show_list(
        records,
        as_json,
        nothing="There are no organisations yet. Create one: migration-service organisations create NAME",
    )


@organisations.command()
@click.argument("name")
@click.option("--to", "cell", required=True, metavar="CELL", help="A cell named in MIGRATION_SERVICE_CELLS.")
@json_option
def move(name: str, cell: str, as_json: bool) -> None:
    """Move an organisation to another cell: copy everything, verify it, and switch.

    Meanwhile it can only be read; other requests get `organisation_moving`. If the command fails, the
    organisation is open again where it was. If it is killed, repeat it, or `reopen` the organisation.
    Afterwards its keys answer here with `organisation_moved` and the new address: make the balancer's map
    again, and then `remove` its rows here.
    """
    settings = read_settings(without=("secret_key",))
    there = _find_cell(settings, cell)
    with (
        open_sessions(settings, connections=2) as source,
        open_sessions(replace(settings, database_url=there["database_url"], database_pooler=False)) as target,
    ):
        done = move_organisation(source, target, name, there["address"], _tell)
    record = {"name": name, "moved_to": done.moved_to, "rows": done.rows}
    rows = "" if done.rows is None else f" with {sum(done.rows.values()):,} rows"
    show_done(record, as_json, f"Organisation {name!r} was moved to cell {cell!r}{rows}, and is open there.")


@organisations.command()
@click.argument("name")
@json_option
def reopen(name: str, as_json: bool) -> None:
    """Open an organisation again whose move was killed and will not be repeated."""
    with open_sessions(read_settings()) as sessions:
        reopen_organisation(sessions, name)
    wait_until_known()
    show_done({"name": name}, as_json, f"Organisation {name!r} is open.")


@organisations.command()
@click.argument("name")
@click.confirmation_option(prompt="This removes everything that was copied to the other cell. Continue?")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove the rows of an organisation that was moved to another cell.

    Its API keys, which tell clients the new address, and its audit are kept. If the command is killed, repeat
    it.
    """
    with open_sessions(read_settings()) as sessions:
        removed = remove_moved_organisation(sessions, name)
    show_done({"name": name, "rows": removed}, as_json, f"{removed:,} rows of {name!r} were removed.")


@organisations.command("map")
@click.argument("backend")
def map_to(backend: str) -> None:
    """Print HAProxy's map from the API keys of this cell to its BACKEND, one key per line."""
    with open_session(read_settings()) as session:
        prefixes = map_keys(session)
    for prefix in prefixes:
        click.echo(f"{prefix} {backend}")


def _find_cell(settings: Settings, name: str) -> dict[str, str]:
    """Return the database and the address of a cell. Raise CannotRunError if the setting lacks it."""
    cells = json.loads(settings.cells)
    cell: dict[str, str] | None = cells.get(name)
    if cell is None:
        known = ", ".join(map(repr, cells)) or "none"
        raise CannotRunError(f"MIGRATION_SERVICE_CELLS has no cell {name!r}. Its cells: {known}.")
    for member in _CELL:
        if not isinstance(cell, dict) or not isinstance(cell.get(member), str):
            raise CannotRunError(f"Cell {name!r} of MIGRATION_SERVICE_CELLS has no {member!r}.")
    try:
        if parse_database_url(cell["database_url"]).get_backend_name() == "postgresql":
            return cell
    except (ArgumentError, ValueError):
        pass
    raise CannotRunError(
        f"The 'database_url' of cell {name!r} in MIGRATION_SERVICE_CELLS is not an address of PostgreSQL. "
        "Expected: postgresql://user:password@host:port/name"
    )


def _tell(table: str, rows: int) -> None:
    if rows:
        click.echo(f"{table}: {rows:,} rows", err=True)


def _record(organisation: Organisation) -> Record:
    return {
        "name": organisation.name,
        "created_at": organisation.created_at,
        "moved_to": organisation.moved_to,
    }
