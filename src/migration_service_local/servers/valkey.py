"""The embedded Valkey, for the broker, notifications and slots.

It listens on the loopback address only, needs a password, and keeps its data on disk.
"""

import os
import signal
import socket

from migration_service_local.servers.binaries import find_valkey
from migration_service_local.servers.home import Home
from migration_service_local.servers.orphans import stop_orphans
from migration_service_local.servers.ports import LOOPBACK
from migration_service_local.servers.process import Program

_CONFIGURATION = {
    "bind": LOOPBACK,
    "protected-mode": "yes",
    "daemonize": "no",
    "appendonly": "yes",
    "appendfsync": "everysec",
    # Snapshots in addition to the log would only cost time.
    "save": '""',
    # A queue must not lose messages. When memory is full, writes fail instead.
    "maxmemory-policy": "noeviction",
    "loglevel": "warning",
    # Idle, it wakes five times a second instead of ten. Blocking commands may time out so much later.
    "hz": "5",
}


class Valkey:
    """The Valkey server of a home folder."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._binary = find_valkey(home.account, home.path / "runtime")
        self.data = home.server_folder("valkey")
        self.port = home.port("valkey")

    @property
    def url(self) -> str:
        """Return the address of its first database, with the password."""
        return f"redis://:{self._home.secret('valkey_password')}@{LOOPBACK}:{self.port}/0"

    def program(self) -> Program:
        """Return the program that runs the server.

        The password is in its configuration file, so that `ps` does not show it.
        """
        configuration = self.data / "valkey.conf"
        configuration.touch(mode=0o600)
        self._home.account.own(configuration, 0o600)
        own = {
            "dir": f'"{self.data}"',
            "port": self.port,
            "requirepass": self._home.secret("valkey_password"),
        }
        lines = (f"{name} {value}\n" for name, value in (_CONFIGURATION | own).items())
        configuration.write_text("".join(lines))
        return Program(
            name="valkey",
            arguments=[str(self._binary), str(configuration)],
            environment={"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath},
            folder=self.data,
            stop=((signal.SIGTERM, 15),),
            death_signal=signal.SIGTERM,
            account=self._home.account,
            # Valkey would start a second time on the same folder without an error.
            before_start=lambda: stop_orphans(self.data, self._binary.name),
        )

    def is_ready(self) -> bool:
        """Return True if it answers. While it reads its log, it answers with an error.

        Redis' client would take ten megabytes in a process that runs as long as the service.
        """
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self._home.secret('valkey_password')}\r\nPING\r\n".encode())
                with connection.makefile("rb") as answers:
                    return answers.readline() == b"+OK\r\n" and answers.readline() == b"+PONG\r\n"
        except OSError:
            return False
