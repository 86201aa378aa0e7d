"""The embedded Valkey: broker, notifications and slots. Loopback only, with a password, on disk."""

import os
import signal

import redis

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
    # Snapshots beside the log would only cost time.
    "save": '""',
    # A queue may not forget: when memory is full, writes fail instead.
    "maxmemory-policy": "noeviction",
    "loglevel": "warning",
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
        """The address of its first database, with the password."""
        return f"redis://:{self._home.secret('valkey_password')}@{LOOPBACK}:{self.port}/0"

    def program(self) -> Program:
        """How the server is run; the password is in its configuration file, where `ps` does not show it."""
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
            before_start=self._stop_orphans,
        )

    def is_ready(self) -> bool:
        """Whether it answers; it does not yet while it reads its log."""
        try:
            with redis.Redis.from_url(self.url, socket_timeout=1, retry=None) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def _stop_orphans(self) -> None:
        # Valkey itself would start a second time on the same folder without complaint.
        stop_orphans(self.data, self._binary.name)
