"""`migration-service api-keys`."""

import click

from migration_service.cli.output import Record, json_option, show_done, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.models import ApiKey
from migration_service.services.access.api_keys import (
    find_prefix,
    issue_api_key,
    list_api_keys,
    revoke_api_key,
)


@click.group("api-keys")
def api_keys() -> None:
    """Manage API keys, with which organisations obtain tokens."""


@api_keys.command()
@click.option("--organisation", required=True, metavar="NAME", help="The organisation that gets the key.")
@json_option
def issue(organisation: str, as_json: bool) -> None:
    """Create an API key and print it.

    The key is shown only once, because only its hash is stored. Send it to the organisation through a secure
    channel.
    """
    with open_session(read_settings()) as session:
        api_key = issue_api_key(session, organisation_name=organisation)
    record = {"api_key": api_key, "prefix": find_prefix(api_key), "organisation": organisation}
    show_done(record, as_json, api_key)
    if not as_json:
        click.echo("The key is not shown again. Send it through a secure channel.", err=True)


@api_keys.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all API keys by prefix, with the times of their last use and of their revocation."""
    with open_session(read_settings()) as session:
        records = [_record(api_key, owner) for api_key, owner in list_api_keys(session)]
    show_list(
        records,
        as_json,
        nothing="There are no API keys yet. Create one: migration-service api-keys issue --organisation NAME",
    )


@api_keys.command()
@click.argument("prefix")
@json_option
def revoke(prefix: str, as_json: bool) -> None:
    """Revoke the API key with this PREFIX, and with it every token that was obtained with it."""
    with open_session(read_settings()) as session:
        api_key = revoke_api_key(session, prefix)
        record = {"prefix": api_key.prefix, "revoked_at": api_key.revoked_at}
    show_done(record, as_json, f"API key {api_key.prefix} was revoked. Its tokens are no longer accepted.")


def _record(api_key: ApiKey, organisation: str) -> Record:
    return {
        "prefix": api_key.prefix,
        "organisation": organisation,
        "created_at": api_key.created_at,
        "last_used_at": api_key.last_used_at,
        "revoked_at": api_key.revoked_at,
    }
