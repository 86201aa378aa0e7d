"""Sending events to a receiver of webhooks as the service does: one POST request each, signed."""

import base64
import binascii
import http.client
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_bytes
from typing import Any
from urllib.parse import urlsplit

import click

from migration_payloads.files.output import say
from migration_service_client.command.errors import CannotRunError
from migration_service_client.uploads import encoded
from migration_service_client.webhooks import sign_webhook

_SECRET = "MIGRATION_CLIENT_WEBHOOK_SECRET"  # noqa: S105  (the name of the variable)
#: Seconds after which a receiver has not answered, as for the service.
_TIMEOUT = 10.0

secret_file_option = click.option(
    "--secret-file",
    envvar=f"{_SECRET}_FILE",
    show_envvar=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"A file with the secret that signs. Without one it is in the variable {_SECRET}, or is made.",
)


class NotReceivedError(Exception):
    """The receiver did not answer with a status from 200 to 299. The text says why."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver of webhooks, and the secret with which messages for it are signed."""

    url: str
    secret: str = field(repr=False)

    def send(self, event: dict[str, Any]) -> int:
        """Send an event, and return the status of the answer. Raise NotReceivedError."""
        body = encoded(event)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "migration-client",
            "Connection": "close",
        }
        headers |= sign_webhook(body, event["id"], int(time.time()), self.secret)
        connection = self._connect()
        try:
            parts = urlsplit(self.url)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", target, body, headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise NotReceivedError(reason or str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if not http.HTTPStatus.OK <= status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise NotReceivedError(f"it answered {status}")
        return status

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT)


def make_receiver(url: str, secret_file: Path | None) -> Receiver:
    """Return the receiver at this address. Raise CannotRunError if the address or the secret is none."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not (is_address and url.isascii()):
        raise CannotRunError(f"{url!r} is not an address that begins with https:// or http://.")
    secret, place = _find_secret(secret_file)
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise CannotRunError(f"{place} has no secret of a webhook, which is whsec_ and Base64.")
    say(f"Signing with the secret in {place}.", err=True)
    return Receiver(url, secret)


def state_folder() -> Path:
    """Return the folder for what is kept between two commands, which is made if it is missing."""
    folder = Path(click.get_app_dir("migration-client"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _find_secret(secret_file: Path | None) -> tuple[str, str]:
    """Return the secret and where it is. Without one, one is made that is the same next time."""
    if secret_file is not None:
        return secret_file.read_text(encoding="utf-8", errors="replace").strip(), str(secret_file)
    if given := os.environ.get(_SECRET, "").strip():
        return given, f"the variable {_SECRET}"
    path = state_folder() / "webhook-secret"
    _create(path, lambda: "whsec_" + base64.b64encode(token_bytes(32)).decode() + "\n")
    return path.read_text().strip(), str(path)


def _create(path: Path, content: Callable[[], str]) -> None:
    """Write a file for this user alone, unless it exists."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(file, "w") as opened:
        opened.write(content())
