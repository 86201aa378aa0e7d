"""`migration-client configure`."""

import sys

import click

from migration_payloads.files.output import say
from migration_service_client.client import Client
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.output import json_option, show_list
from migration_service_client.command.profiles import (
    DEFAULT,
    Profile,
    profiles_file,
    read_profiles,
    write_profiles,
)


@click.command()
@click.argument("name", required=False)
@click.option("--url", metavar="URL", help="The address of the service.")
@click.option("--remove", is_flag=True, help="Forget the profile.")
@json_option
def configure(*, name: str | None, url: str | None, remove: bool, as_json: bool) -> None:
    """Keep the address and the key of a service as the profile NAME.

    Without NAME, list the profiles.

    The key is asked for, or read from standard input if that is no terminal. Both are written to a file that
    only you can read. `migration-client --profile NAME` uses them, and without --profile the profile
    `default` is used, unless an address or a key is given.
    """
    found = read_profiles()
    if name is None:
        rows = [{"profile": it, "url": found[it].url} for it in found]
        show_list(rows, as_json, nothing="No profile yet: migration-client configure default --url URL")
        return
    if remove == (url is not None):
        raise click.UsageError("Expected --url or --remove: give one of them.")
    if url is None:
        if found.pop(name, None) is None:
            raise CannotRunError(f"There is no profile {name!r}.")
    else:
        key = _ask() if sys.stdin.isatty() else sys.stdin.readline()
        try:
            Client(url, key.strip()).close()
        except ValueError as error:
            raise CannotRunError(f"{url!r}: {error}") from None
        if not key.strip() or not key.isascii():
            raise CannotRunError("Expected an API key, which has ASCII characters only.")
        found[name] = Profile(url, key.strip())
    write_profiles(found)
    how = "" if name == DEFAULT else f": migration-client --profile {name} ..."
    say(f"{profiles_file()} {'no longer has' if remove else 'has'} the profile {name}{'' if remove else how}")


def _ask() -> str:
    key: str = click.prompt("API key", hide_input=True)
    return key
