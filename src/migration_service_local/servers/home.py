"""The home folder: the servers' data, passwords and ports, and the lock that allows only one copy.

lock                held while `up` runs. It names the process that holds it
secrets.json        passwords and keys, made once (0600)
ports.json          the ports of the embedded servers, the same at every start
settings.json       what other commands need to find the running service (0600)
sample-api-key      the API key of the sample supplier (0600)
console-password    the first password of the console's first operator (0600)
demo.json           how much of the sample book has been migrated (0600)
postgres/ valkey/   the servers' data
programs/           scratch folders of the web server, the workers and Flower
"""

import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import IO

from migration_service_local.errors import StartError
from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.ports import is_free, random_free_port


class Home:
    """One home folder, locked by this process until `close` or until it ends, unless it `is_ours` already.

    Raise StartError if the folder cannot be used, or another copy uses it.
    """

    def __init__(self, path: Path, *, is_ours: bool = False) -> None:
        # A process reports its folder without symbolic links, and is recognised by it later.
        self.path = path.resolve()
        self.account = ServerAccount.choose()
        self._make()
        self._lock = None if is_ours else self._take_lock()

    def close(self) -> None:
        """Let another copy use the folder."""
        if self._lock:
            self._lock.close()

    def folder(self, name: str) -> Path:
        """Return a subfolder that only we can enter. Create it if it does not exist."""
        folder = self.path / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        return folder

    def server_folder(self, name: str) -> Path:
        """Return a subfolder that only the servers' account can enter.

        Create it if it does not exist.
        """
        folder = self.path / name
        try:
            folder.mkdir(exist_ok=True)
            self.account.own(folder, 0o700)
        except PermissionError as error:
            raise StartError(
                f"{folder} belongs to another user: start as that user, or choose another folder (--home)."
            ) from error
        return folder

    def secret(self, name: str) -> str:
        """Return the random password or key of this name. Create it when it is first needed."""
        known = self.read("secrets.json")
        if name not in known:
            known[name] = secrets.token_urlsafe(32)
            self.write("secrets.json", known)
        return str(known[name])

    def port(self, name: str) -> int:
        """Return the port of this server.

        It is the port of the last start, unless another program uses it now.
        """
        known = self.read("ports.json")
        if name not in known or not is_free(int(known[name])):
            known[name] = str(random_free_port())
            self.write("ports.json", known)
        return int(known[name])

    def read(self, name: str) -> dict[str, str]:
        """Return the JSON object in this file, or an empty one if the file does not exist."""
        try:
            content: dict[str, str] = json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return {}
        return content

    def write(self, name: str, content: dict[str, str]) -> None:
        """Replace this JSON file atomically. Only its owner can read it."""
        self.write_text(name, json.dumps(content, indent=2))

    def read_text(self, name: str) -> str:
        """Return the line in this file, or an empty string if the file does not exist."""
        try:
            return (self.path / name).read_text().rstrip("\n")
        except FileNotFoundError:
            return ""

    def write_text(self, name: str, text: str) -> None:
        """Replace this file atomically, with a line break at the end. Only its owner can read it."""
        unfinished = self.path / f"{name}.new"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path / name)

    def _make(self) -> None:
        try:
            if not self.path.exists():
                self.path.mkdir(parents=True)
                # The servers' account can pass through the folder to its data, but cannot list it.
                self.path.chmod(0o711 if self.account.switch else 0o700)
            if not os.access(self.path, os.W_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise StartError(
                f"The home folder {self.path} cannot be used ({error.strerror}): choose another one (--home)."
            ) from error
        if not self.account.can_enter(self.path):
            raise StartError(
                f"The servers run as {self.account.name!r}, who cannot enter {self.path}: "
                "choose another home folder with --home, outside of folders that only root may enter."
            )

    def _take_lock(self) -> IO[str]:
        # Python closes its files on exec, so no server can inherit the lock and keep it after our end.
        try:
            file = (self.path / "lock").open("a+")
        except PermissionError as error:
            raise StartError(
                f"{self.path} belongs to another user: choose another folder (--home)."
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise StartError(
                f"The service is already running on {self.path} (process {holder}): stop that one first, or "
                "choose another folder for a second copy (--home)."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        return file
