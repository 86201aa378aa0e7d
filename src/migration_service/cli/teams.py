"""`migration-service teams`."""

import click

from migration_service.cli.output import Record, json_option, show_done, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.models import OperationsTeam
from migration_service.services.setup.teams import create_operations_team, list_operations_teams


@click.group()
def teams() -> None:
    """Manage operations teams, to which created accounts are linked."""


@teams.command()
@click.argument("name")
@json_option
def create(name: str, as_json: bool) -> None:
    """Create an operations team."""
    with open_session(read_settings()) as session:
        record = _record(create_operations_team(session, name))
    show_done(record, as_json, f"Operations team {name!r} was created.")


@teams.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all operations teams."""
    with open_session(read_settings()) as session:
        records = [_record(team) for team in list_operations_teams(session)]
    show_list(
        records,
        as_json,
        nothing="There are no operations teams yet. Create one: migration-service teams create NAME",
    )


def _record(team: OperationsTeam) -> Record:
    return {"name": team.name, "created_at": team.created_at}
