"""The user that runs the servers, because PostgreSQL refuses to run as root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from migration_service_local.errors import StartError

_UNPRIVILEGED = "nobody"


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The user that owns the servers' data and runs them. `switch` is True if it is another user."""

    user: int
    group: int
    name: str
    switch: bool

    @classmethod
    def choose(cls) -> "ServerAccount":
        """Return the current user, or `nobody` for root. Raise StartError if that user does not exist."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), _user_name(os.geteuid()), switch=False)
        try:
            entry = pwd.getpwnam(_UNPRIVILEGED)
        except KeyError as error:
            raise StartError(
                f"PostgreSQL does not run as root, and the user {_UNPRIVILEGED!r} does not exist. "
                "Start this as an ordinary user."
            ) from error
        return cls(entry.pw_uid, entry.pw_gid, entry.pw_name, switch=True)

    def run(self, arguments: list[str], *, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a short program as this account, and return its result with the captured output."""
        return subprocess.run(
            arguments,
            check=False,
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            user=self.user if self.switch else None,
            group=self.group if self.switch else None,
            extra_groups=[] if self.switch else None,
        )

    def can_run(self, program: Path) -> bool:
        """Return True if this account can run `program` with its libraries, by asking for its version."""
        try:
            return self.run([str(program), "--version"], environment={"LC_ALL": "C"}).returncode == 0
        except OSError:
            return False

    def can_enter(self, folder: Path) -> bool:
        """Return True if this account may enter `folder`.

        The kernel is asked, because file modes do not tell everything.
        """
        script = 'cd "$1"'
        return self.run(["/bin/sh", "-c", script, "sh", str(folder)], environment={}).returncode == 0

    def own(self, path: Path, mode: int) -> None:
        """Make this account the owner of `path`, with `mode`."""
        path.chmod(mode)
        if self.switch:
            os.chown(path, self.user, self.group)


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError as error:
        raise StartError(
            f"User {user} has no name on this machine, and PostgreSQL does not start without one: add it "
            "to /etc/passwd, or set DATABASE_URL to a PostgreSQL server of yours."
        ) from error
