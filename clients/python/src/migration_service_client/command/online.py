"""What commands need that use the service: its address and the key, which is never an argument."""

import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from migration_payloads.files.output import say
from migration_service_client import AsyncClient, Client
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.profiles import DEFAULT, Profile, read_profile, read_profiles

T = TypeVar("T", Client, AsyncClient)

_KEY = "MIGRATION_CLIENT_KEY"
#: Seconds without another message that the service does not answer.
_SILENCE = 10.0

_OPTIONS = (
    click.option(
        "--url",
        envvar="MIGRATION_CLIENT_URL",
        show_envvar=True,
        metavar="URL",
        help="The address of the service.",
    ),
    click.option(
        "--key-file",
        envvar="MIGRATION_CLIENT_KEY_FILE",
        show_envvar=True,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"A file with your API key. Without one the key is in the variable {_KEY}.",
    ),
)


@dataclass(frozen=True, slots=True)
class Service:
    """The service that a command uses. What is missing to use it is an error when it is needed."""

    url: str | None
    #: None if the key comes from a variable, or from the profile.
    key_file: Path | None
    patience: float
    profile: Profile | None = None

    def require(self) -> None:
        """Raise CannotRunError if the address or the key is missing, or has another form."""
        self.client().close()

    def client(self) -> Client:
        """Return a client for threads. Close it. Raise the errors of `require`."""
        return self._open(Client)

    def async_client(self) -> AsyncClient:
        """Return a client for asyncio. Close it. Raise the errors of `require`."""
        return self._open(AsyncClient)

    def _open(self, kind: type[T]) -> T:
        if not self.url:
            raise CannotRunError(
                "No address of the service is given. Use --url or --profile, or set the variable "
                "MIGRATION_CLIENT_URL."
            )
        key = self.profile.key if self.profile else _read_key(self.key_file)
        try:
            return kind(self.url, key, patience=self.patience)
        except ValueError:
            raise CannotRunError(
                f"{self.url!r} is not an address that begins with https:// or http://."
            ) from None


def online(patience: float = 10.0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of the service to a command, which gets a `service`.

    The key comes from a file or from a variable, because everybody on a machine sees the arguments of all
    commands. `patience` is the default of the option.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(
            *arguments: Any, url: str | None, key_file: Path | None, patience: float, **options: Any
        ) -> Any:
            logging.getLogger("migration_service_client").addHandler(_Waiting(logging.WARNING))
            if profile := _profile(url, key_file):
                url, key_file = profile.url, None
            service = Service(url, key_file, patience, profile)
            return command(*arguments, service=service, **options)

        waits = click.option(
            "--patience",
            type=click.FloatRange(min=0),
            default=patience,
            show_default=True,
            metavar="SECONDS",
            help="For how long a request is sent again if the service does not answer.",
        )
        made: Callable[..., Any] = run
        for option in (waits, *reversed(_OPTIONS)):
            made = option(made)
        return made

    return add


def _profile(url: str | None, key_file: Path | None) -> Profile | None:
    """Return the profile that is wanted, or the one named `default` if nothing else says what to use.

    A key is never sent to an address that was not configured with it.
    """
    context = click.get_current_context()
    wanted = context.find_root().params.get("profile")
    if wanted:
        for name in ("url", "key_file"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = name.replace("_", "-")
                raise click.UsageError(f"--profile has an address and a key. Leave out --{option}.")
        return read_profile(wanted)
    is_given = url or key_file or os.environ.get(_KEY)
    return None if is_given else read_profiles().get(DEFAULT)


class _Waiting(logging.Handler):
    """Says on standard error that a request has no answer and is sent again, but not at each try."""

    _told_at = -math.inf

    def emit(self, record: logging.LogRecord) -> None:
        """Write a warning of the client, unless one was written a moment ago."""
        if time.monotonic() - self._told_at > _SILENCE:
            self._told_at = time.monotonic()
            say(f"{record.getMessage()}.", err=True)


def _read_key(key_file: Path | None) -> str:
    if key_file is None:
        key, place = os.environ.get(_KEY, ""), f"the variable {_KEY}"
    else:
        key, place = _read_ascii(key_file), str(key_file)
    if not key.strip():
        raise CannotRunError(
            f"No API key is in {place}. Name a file that has it with --key-file, or set the variable {_KEY}."
        )
    return key.strip()


def _read_ascii(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except UnicodeDecodeError:
        raise CannotRunError(f"{file} has no API key, which has ASCII characters only.") from None
