"""`migration-service teams`."""

import click

from migration_service.cli.output import Record, json_option, show_done, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.models import OperationsTeam
from migration_service.services.setup.teams import (
    create_operations_team,
    get_operations_team,
    list_operations_teams,
    remove_operations_team,
    rename_operations_team,
)

_owner = click.option(
    "--organisation", metavar="NAME", help="The organisation that owns the team.  [default: shared by all]"
)


@click.group()
def teams() -> None:
    """Manage the operations teams that created accounts are linked to."""


@teams.command()
@click.argument("name")
@_owner
@json_option
def create(name: str, organisation: str | None, as_json: bool) -> None:
    """Create an operations team."""
    with open_session(read_settings()) as session:
        team = create_operations_team(session, name, organisation_name=organisation)
        record = _record(team, organisation)
    show_done(record, as_json, f"Operations team {name!r} was created.")


@teams.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all operations teams."""
    with open_session(read_settings()) as session:
        records = [_record(team, owner) for team, owner in list_operations_teams(session)]
    show_list(
        records,
        as_json,
        nothing="There are no operations teams yet. Create one: migration-service teams create NAME",
    )


@teams.command()
@click.argument("name")
@click.argument("new_name")
@_owner
@json_option
def rename(name: str, new_name: str, organisation: str | None, as_json: bool) -> None:
    """Give the operations team NAME, which nothing refers to yet, the name NEW_NAME."""
    with open_session(read_settings()) as session:
        team = get_operations_team(session, name, organisation)
        rename_operations_team(session, team, new_name)
        record = _record(team, organisation)
    show_done(record, as_json, f"Operations team {name!r} is now {new_name!r}.")


@teams.command()
@click.argument("name")
@_owner
@json_option
def remove(name: str, organisation: str | None, as_json: bool) -> None:
    """Remove the operations team NAME, which nothing refers to."""
    with open_session(read_settings()) as session:
        team = get_operations_team(session, name, organisation)
        record = _record(team, organisation)
        remove_operations_team(session, team)
    show_done(record, as_json, f"Operations team {name!r} was removed.")


def _record(team: OperationsTeam, organisation: str | None) -> Record:
    return {"name": team.name, "organisation": organisation, "created_at": team.created_at}
