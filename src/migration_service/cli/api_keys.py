"""`migration-service api-keys`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from migration_service.cli.output import Record, json_option, pick, show_done, show_list
from migration_service.cli.session import open_session, open_session_of_reference, read_settings
from migration_service.models import ApiKey
from migration_service.services.access.api_keys import (
    KeyLimits,
    find_prefix,
    get_api_key,
    issue_api_key,
    list_api_keys,
    revoke_api_key,
    roll_api_key,
)
from migration_service.services.access.scopes import Scope
from migration_service.services.access.sessions import end_session, list_sessions
from migration_service.services.webhooks.switching import find_webhooks_of_key, switch_off_webhooks_of_key

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_LONGEST = timedelta(days=3660)


class DurationType(click.ParamType[timedelta]):
    """A duration such as `30m`, `12h` or `7d`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration."""
        found = re.fullmatch(r"([0-9]{1,5})([mhd])", str(value))
        if found is None or (duration := int(found[1]) * _UNITS[found[2]]) > _LONGEST:
            self.fail(f"{value!r} is not a duration. Write it as 30m, 12h or 7d.", param, ctx)
        return duration


@click.group("api-keys")
def api_keys() -> None:
    """Manage the API keys that organisations use to obtain tokens."""


@api_keys.command()
@click.option("--organisation", required=True, metavar="NAME", help="The organisation that gets the key.")
@click.option("--name", metavar="TEXT", help="A name to recognise the key by.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What the key may be used for. Can be repeated.  [default: everything]",
)
@click.option(
    "--supplier",
    "suppliers",
    multiple=True,
    metavar="CODE",
    help="An import supplier that the key may be used for. Can be repeated.  [default: all]",
)
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="CIDR",
    help="A network that the key may be used from, such as 192.0.2.0/24. Can be repeated.  [default: any]",
)
@click.option(
    "--expires-in",
    type=DurationType(),
    metavar="TIME",
    help="How long the key is valid, such as 90d.  [default: no limit]",
)
@json_option
def issue(
    *,
    organisation: str,
    name: str | None,
    scopes: tuple[str, ...],
    suppliers: tuple[str, ...],
    networks: tuple[str, ...],
    expires_in: timedelta | None,
    as_json: bool,
) -> None:
    """Create an API key and print it.

    The key is shown only once, because only its hash is stored. Send it to the organisation through a secure
    channel.
    """
    limits = KeyLimits(
        scopes=[Scope(scope) for scope in scopes] or None,
        import_suppliers=suppliers or None,
        networks=networks or None,
        expires_at=datetime.now(UTC) + expires_in if expires_in else None,
    )
    with open_session(read_settings()) as session:
        api_key = issue_api_key(session, organisation_name=organisation, name=name, limits=limits)
    record = {"api_key": api_key, "prefix": find_prefix(api_key), "organisation": organisation}
    _show_key(api_key, record, as_json)


@api_keys.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all API keys by prefix, with their limits, last use and expiry."""
    with open_session(read_settings()) as session:
        records = [_record(api_key, owner) for api_key, owner in list_api_keys(session)]
    show_list(
        records,
        as_json,
        nothing="There are no API keys yet. Create one: migration-service api-keys issue --organisation NAME",
    )


@api_keys.command()
@click.argument("prefix")
@click.option(
    "--overlap",
    type=DurationType(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How long the old key is still accepted, such as 30m, 12h or 7d.",
)
@json_option
def roll(prefix: str, overlap: timedelta, as_json: bool) -> None:
    """Create a successor to the API key that starts with PREFIX, and print it.

    It has the same name and limits. The old key expires after the overlap.
    """
    with open_session_of_reference(read_settings()) as session:
        api_key, old = roll_api_key(session, prefix, overlap)
        ends = {"old_prefix": old.prefix, "old_expires_at": old.expires_at}
    _show_key(api_key, {"api_key": api_key, "prefix": find_prefix(api_key), **ends}, as_json)


@api_keys.command()
@click.argument("prefix")
@click.option("--keep-webhooks", is_flag=True, help="Leave the webhooks on that it has created.")
@json_option
def revoke(prefix: str, keep_webhooks: bool, as_json: bool) -> None:
    """Revoke the API key that starts with PREFIX, and every token obtained with it.

    The command takes about a second. Once it has finished, none of the tokens is accepted. The key's batches
    are paused, and the webhooks that it has created are named and switched off.
    """
    with open_session_of_reference(read_settings()) as session:
        api_key = revoke_api_key(session, prefix)
        webhooks = [str(it.id) for it in find_webhooks_of_key(session, api_key.id)]
        if not keep_webhooks:
            switch_off_webhooks_of_key(session, api_key.id)
        record = {"prefix": api_key.prefix, "revoked_at": api_key.revoked_at, "webhooks": webhooks}
    told = f"API key {api_key.prefix} was revoked. Its tokens are no longer accepted."
    if webhooks:
        became = "stay on" if keep_webhooks else "are switched off"
        told += f" The webhooks that it has created {became}: {', '.join(webhooks)}."
    show_done(record, as_json, told)


@api_keys.command()
@click.argument("prefix")
@json_option
def sessions(prefix: str, as_json: bool) -> None:
    """List the sessions of the API key that starts with PREFIX: where and when tokens were obtained."""
    with open_session(read_settings()) as session:
        records = [
            {"session_id": str(it.id), **pick(it, "created_at", "expires_at", "address", "request_id")}
            for it in list_sessions(session, get_api_key(session, prefix))
        ]
    show_list(records, as_json, nothing="The key has no sessions.")


@api_keys.command("end-session")
@click.argument("session_id")
@json_option
def end(session_id: str, as_json: bool) -> None:
    """End the session SESSION_ID and revoke its tokens. The key stays valid.

    The command takes about a second. Once it has finished, none of the tokens is accepted.
    """
    with open_session_of_reference(read_settings()) as session:
        record = {"session_id": session_id, "ended_at": end_session(session, session_id).ended_at}
    show_done(record, as_json, f"The tokens of session {session_id} are no longer accepted.")


def _show_key(api_key: str, record: Record, as_json: bool) -> None:
    show_done(record, as_json, api_key)
    if not as_json:
        click.echo("The key is not shown again. Send it through a secure channel.", err=True)


def _record(api_key: ApiKey, organisation: str) -> Record:
    return {
        "prefix": api_key.prefix,
        "organisation": organisation,
        **pick(api_key, "name", "scopes", "import_supplier_ids"),
        "networks": api_key.allowed_networks,
        **pick(api_key, "created_at", "last_used_at", "expires_at", "revoked_at"),
    }
