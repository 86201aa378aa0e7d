"""The service's own processes: the web server, two workers, beat and Flower."""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import migration_service
from migration_service.config import CONNECTION_VARIABLES
from migration_service.tasks.names import QUEUES
from migration_service_local.errors import StartError
from migration_service_local.sandbox import SANDBOX_VARIABLE
from migration_service_local.servers.home import Home
from migration_service_local.servers.orphans import program_name, stop_orphans
from migration_service_local.servers.ports import LOOPBACK
from migration_service_local.servers.process import Program

#: The user name for Flower. The password is created at the first start.
FLOWER_USER = "operator"

#: The worker of the queue of requests that wait, and the one of all other queues.
_INTERACTIVE = "interactive"
_BACKGROUND = "background"

_CELERY = ("celery", "--quiet", "-A", "celery_worker")
_CELERY_MONITOR = ("celery", "--quiet", "-A", "celery_monitor")

_SERVERS = (*CONNECTION_VARIABLES, "MIGRATION_SERVICE_OWNER_DATABASE_URL")
_NOT_PASSED_ON = {*_SERVERS, *(f"{variable}_FILE" for variable in _SERVERS)}

# Celery warns at length if root starts a worker, which is common on a new machine.
_ROOT_IS_MEANT = "ignore:You're running the worker with superuser privileges"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Numbers of processes and threads."""

    web_workers: int = 2
    web_threads: int = 320
    interactive_workers: int = 2
    batch_workers: int = 2


class Programs:
    """The processes of a home folder. They read the addresses of the servers from its settings."""

    def __init__(self, home: Home, scale: Scale) -> None:
        self._home = home
        self._scale = scale
        self._root = _project_folder()

    def web(self, port: int) -> Program:
        """Return the web server.

        When it is stopped, it finishes its current requests.
        """
        return self._python(
            "web",
            [
                *("migration_service.web_server", "--bind", f"{LOOPBACK}:{port}"),
                *("--processes", str(self._scale.web_workers), "--threads", str(self._scale.web_threads)),
                "--shared",
            ],
            stop_seconds=45,
            environment={"MIGRATION_SERVICE_LEAVE_SECONDS": "0"} | self._sandbox_secret(),
            # Its processes would not notice that it was killed.
            death_signal=signal.SIGTERM,
        )

    def sandbox(self, port: int) -> Program:
        """Return the sandbox vendor, for trying payment instructions."""
        return self._python(
            "sandbox",
            ["migration_service_local.sandbox", "--port", str(port)],
            stop_seconds=5,
            environment=self._sandbox_secret(),
        )

    def demo(self, *step: str) -> Program:
        """Return a step that needs the service's own code. It writes to a terminal itself."""
        return self._python("demo", ["migration_service_local.demo", *step], stop_seconds=10)

    def workers(self) -> list[Program]:
        """Return two Celery workers: for requests that wait, and for everything else.

        Each worker has a parent process, which takes as much memory as a child. So webhooks and e-mail, of
        which one message is on its way at a time, have a child more of the second instead of a worker.
        """
        others = ",".join(name for name in QUEUES if name != _INTERACTIVE)
        background = self._scale.batch_workers + 1
        return [
            self.worker(_INTERACTIVE, _INTERACTIVE, self._scale.interactive_workers),
            self.worker(_BACKGROUND, others, background, secrets=self._sandbox_secret()),
        ]

    def sharing(self, *programs: Program) -> Program:
        """Return these Celery programs as one, whose processes share the memory of what they load."""
        specs = [(it.name, str(it.folder), it.arguments[3:]) for it in programs]
        environment = {name: text for it in programs for name, text in it.environment.items()}
        modules = ["migration_service_local.up.sharing", json.dumps(specs)]
        return self._python("workers", modules, stop_seconds=40, environment=environment)

    def beat(self) -> Program:
        """Return beat. It is not part of a worker, because a worker would not start it again."""
        return self._python("beat", [*_CELERY_MONITOR, "beat", "--loglevel", "INFO"], stop_seconds=10)

    def flower(self, port: int) -> Program:
        """Return Flower. Its password is in its environment, so that `ps` does not show it."""
        return self._python(
            "flower",
            [*_CELERY_MONITOR, "flower", f"--address={LOOPBACK}", f"--port={port}"],
            # Once its broker has ended, it does not end on SIGTERM. So it is stopped before Valkey.
            stop_seconds=10,
            environment={
                "FLOWER_BASIC_AUTH": f"{FLOWER_USER}:{self._home.secret('flower_password')}",
                "FLOWER_PERSISTENT": "true",
                "FLOWER_DB": str(self._folder("flower") / "history"),
                "FLOWER_STATE_SAVE_INTERVAL": "30000",
                "FLOWER_MAX_TASKS": "10000",
                "FLOWER_PURGE_OFFLINE_WORKERS": "300",
                "FLOWER_TASKS_COLUMNS": "name,state,args,result,exception,received,runtime,worker",
            },
        )

    def _sandbox_secret(self) -> dict[str, str]:
        return {SANDBOX_VARIABLE: self._home.secret("sandbox_vendor")}

    def worker(self, name: str, queues: str, concurrency: int, *, secrets: Mapping[str, str] = {}) -> Program:
        """Return a Celery worker of these queues, separated by commas, with so many processes."""
        return self._python(
            name,
            [
                *(*_CELERY, "worker", "--loglevel", "INFO", "--without-gossip", "--without-mingle"),
                *("-Q", queues, "-n", f"{name}@%h", "-c", str(concurrency), "--heartbeat-interval", "10"),
            ],
            # On SIGTERM it finishes its current tasks, which have time limits, and takes no more. A task that
            # is killed runs again, because every task is idempotent.
            stop_seconds=40,
            environment={"PYTHONWARNINGS": _ROOT_IS_MEANT, **secrets},
        )

    def _python(
        self,
        name: str,
        module: Sequence[str],
        *,
        stop_seconds: float,
        environment: Mapping[str, str] = {},
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> Program:
        arguments = [sys.executable, "-m", *module]
        folder = self._folder(name)
        return Program(
            name=name,
            arguments=arguments,
            environment=self._environment(environment),
            folder=folder,
            stop=((signal.SIGTERM, stop_seconds),),
            death_signal=death_signal,
            before_start=lambda: stop_orphans(folder, program_name(arguments)),
        )

    def _environment(self, own: Mapping[str, str]) -> dict[str, str]:
        paths = os.pathsep.join(filter(None, [str(self._root), os.environ.get("PYTHONPATH")]))
        return {
            "MIGRATION_SERVICE_LOG_FORMAT": "text",
            # The servers and the key all come from the settings of the home folder.
            **{name: text for name, text in os.environ.items() if name not in _NOT_PASSED_ON},
            "MIGRATION_SERVICE_HOME": str(self._home.path),
            "PYTHONPATH": paths,
            "PYTHONUNBUFFERED": "1",
            # If the native code of a library crashes, the log shows where.
            "PYTHONFAULTHANDLER": "1",
            # Otherwise the C library would give each of hundreds of threads its own heap, and keep it.
            "MALLOC_ARENA_MAX": "2",
            **own,
        }

    def _folder(self, name: str) -> Path:
        self._home.folder("programs")
        return self._home.folder(f"programs/{name}")


def _project_folder() -> Path:
    """Return the folder with `wsgi.py` and `celery_worker.py`, from which this package was installed."""
    root = Path(migration_service.__file__).resolve().parents[2]
    if not (root / "wsgi.py").exists():
        raise StartError(
            f"{root} has no wsgi.py, so nothing can be run. `up` works in a checkout of the "
            "project, where `make run` starts it. Elsewhere, start the web server and the workers yourself, "
            "as docker-compose.yml does."
        )
    return root
