"""`migration-service organisations`."""

import click

from migration_service.cli.output import Record, json_option, show_done, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.models import Organisation
from migration_service.services.setup.organisations import create_organisation, list_organisations


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


def _record(organisation: Organisation) -> Record:
    return {"name": organisation.name, "created_at": organisation.created_at}
