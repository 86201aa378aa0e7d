"""The servers and processes that are measured. The service's own are started as `migration-service up` does.

PostgreSQL writes to disk (fsync on). Everything is in a temporary folder, and is stopped at the end.
"""

import http.client
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import LiteralString, Self

import psutil
import psycopg

from migration_service.config import Settings
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from migration_service_local.servers.postgres import DATABASE
from migration_service_local.servers.process import Program, stop_children
from migration_service_local.up.programs import Programs, Scale
from support.servers import EmbeddedServers, wait_until_ready

#: Processes of each kind, for the service and for its peers.
PROCESSES = 2
_SCALE = Scale(web_workers=PROCESSES, interactive_workers=PROCESSES, batch_workers=PROCESSES)
_HERE = Path(__file__).parent
#: The Python of the peers' environment, which `make bench` makes.
PEERS_PYTHON = _HERE / ".venv" / "bin" / "python"
#: The variables with which peers find their modules and those of the suppliers' client, without our own
#: environment.
PEER_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.environ.get("HOME", "/"),
    "LC_ALL": os.environ.get("LC_ALL", "C.UTF-8"),
    "PYTHONPATH": f"{_HERE / 'peers'}:{_HERE.parent / 'clients/python/src'}",
    "PYTHONUNBUFFERED": "1",
}


class Stack(EmbeddedServers):
    """PostgreSQL, Valkey, the service, and the peers on the same servers. Use it in a `with` statement."""

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.web_port = random_free_port()
        self._programs = Programs(self.home, _SCALE)

    def __enter__(self) -> Self:
        super().__enter__()
        self.upgrade()
        self.settings = Settings(
            home=self.home.path,
            database_url=self.database_url,
            owner_database_url=self.owner_url,
            redis_url=self.redis_url,
            secret_key=self.home.secret("secret_key"),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(
                f"The last lines of the processes' log:\n{self.log.read_text(errors='replace')[-4000:]}\n"
            )
        super().__exit__(kind, error, trace)

    def start_service(self) -> None:
        """Start the web server and the workers."""
        self.write_settings()
        *behind, web = self._service()
        for program in behind:
            self._start(program)
        self._start(web, lambda: answers(self.web_port, "/health/live"))

    def write_settings(self) -> None:
        """Write the settings that the service's processes read when they start."""
        self.home.write(
            "settings.json",
            {
                "DATABASE_URL": self.settings.database_url,
                "REDIS_URL": self.settings.redis_url,
                "MIGRATION_SERVICE_SECRET_KEY": self.settings.secret_key,
                "MIGRATION_SERVICE_LOG_FORMAT": "json",
            },
        )

    def stop_service(self) -> None:
        """Stop what `start_service` started."""
        self.stop(*(program.name for program in self._service()))

    def _service(self) -> list[Program]:
        return [*self._programs.workers(), self._programs.web(self.web_port)]

    def start_sandbox(self) -> str:
        """Start the sandbox vendor. Return its address."""
        port = random_free_port()
        url = f"http://{LOOPBACK}:{port}"
        self._start(self._programs.sandbox(port), lambda: answers(port))
        return url

    def start_peer(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start a process of the peers' own virtual environment: `python -m ARGUMENTS`."""
        folder = self.home.folder(f"peers/{name}")
        self._start(
            Program(
                name=name,
                arguments=[str(PEERS_PYTHON), *arguments],
                environment={**PEER_ENVIRONMENT, **environment},
                folder=folder,
                stop=((signal.SIGTERM, 10),),
            ),
            is_ready,
        )

    def stop(self, *names: str) -> None:
        """Stop these processes, and wait until they have ended."""
        stop_children([self.children.pop(name) for name in names])

    def connect(self) -> psycopg.Connection:
        """Open a connection of the superuser, in autocommit mode."""
        return self.postgres.connect_as_superuser(DATABASE)

    def maintain(self, statement: LiteralString) -> None:
        """Run CHECKPOINT or VACUUM, so that it is not a part of what is measured next."""
        with self.connect() as connection:
            connection.execute(statement)

    def processes(self, name: str) -> list[psutil.Process]:
        """Return the process of this program and all its descendants."""
        process = psutil.Process(self.children[name].process.pid)
        return [process, *process.children(recursive=True)]

    def _start(self, program: Program, is_ready: Callable[[], bool] = lambda: True) -> None:
        child = self.children[program.name] = self._spawn(program)
        wait_until_ready(child, is_ready)


def answers(port: int, path: str = "/") -> bool:
    """Return True if an HTTP server answers at this address, and has not failed."""
    with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=1)) as connection, suppress(OSError):
        connection.request("GET", path)
        return connection.getresponse().status < 500
    return False
