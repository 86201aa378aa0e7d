"""The web server: `python -m migration_service.web_server --bind 127.0.0.1:8000`.

granian accepts connections, reads requests and sends answers outside of Python. It uses threads, because a
process request waits for its worker. Each process has more threads than the 250 accounts that may be
processed at once, because the system may give most connections to one process. So the next request is
answered 429 instead of waiting for a thread, and status and stage requests are still served. A thread is
started when it is needed, and ends when it was idle for half a minute.

SIGHUP replaces the processes one after the other. SIGTERM ends them when they have answered their requests.
"""

import importlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import click
from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels

from migration_service.config import Settings
from migration_service.leaving import leave_before_ending
from migration_service.loading import begin_loading, end_loading
from migration_service.log import make_handler
from migration_service.shares import THREADS

#: Seconds for the requests of a process that has to end. A process request waits less long for its outcome.
GRACEFUL_SECONDS = 40
#: The largest number of connections of a process. Idle ones need no thread.
CONNECTIONS = 2_000
#: Milliseconds that an idle connection stays open: longer than clients keep one. Otherwise http.client would
#: use one that is already closed.
_IDLE_MS = 75_000
_UNIX = "unix:"


@click.command()
@click.option("--bind", default="127.0.0.1:8000", show_default=True, help="HOST:PORT, or unix:PATH.")
@click.option("--processes", default=2, show_default=True, help="The number of processes.")
@click.option("--threads", default=THREADS, show_default=True, help="The most threads of each process.")
@click.option("--shared", is_flag=True, help="Processes share the memory of the code: SIGHUP loads no other.")
def main(bind: str, processes: int, threads: int, shared: bool) -> None:
    """Serve the interface until SIGTERM."""
    settings = Settings.from_env()
    # Every process keeps its metrics in a file of this folder. The process that serves /metrics adds up all
    # of them, those of a dead process included. prometheus_client reads the variable when it is imported.
    folder = Path(settings.metrics_folder or tempfile.mkdtemp(prefix="migration-service-metrics-"))
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    # A forked process has the main one's socket, and its mark that it leaves its balancer.
    multiprocessing.set_start_method("fork")
    os.register_at_fork(after_in_child=_begin)
    server = Granian(
        "wsgi:app",
        interface=Interfaces.WSGI,
        **_listen_at(bind),
        workers=processes,
        blocking_threads=threads,
        backpressure=CONNECTIONS,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=_IDLE_MS),
        websockets=False,
        respawn_failed_workers=True,
        workers_kill_timeout=GRACEFUL_SECONDS,
        **_log_as(settings),
    )
    server.on_startup(partial(_empty, folder))
    if shared:
        server.on_startup(_load)
    server.on_startup(partial(leave_before_ending, settings.leave_seconds))
    if not settings.metrics_folder:
        server.on_shutdown(partial(shutil.rmtree, folder, ignore_errors=True))
    server.serve()


def _listen_at(bind: str) -> dict[str, Any]:
    host, _, port = bind.rpartition(":")
    if not bind.startswith(_UNIX):
        return {"address": host, "port": int(port), "backlog": CONNECTIONS}
    socket = Path(bind.removeprefix(_UNIX))
    socket.unlink(missing_ok=True)  # a server that was killed leaves it
    return {"uds": socket, "uds_permissions": 0o660, "backlog": CONNECTIONS}


def _log_as(settings: Settings) -> dict[str, Any]:
    """Give granian's log lines the form of all others. The service itself logs the requests."""
    handlers = {"console": {"()": make_handler, "log_format": settings.log_format}}
    root = {"level": settings.log_level, "handlers": ["console"]}
    return {
        "log_level": LogLevels(settings.log_level.lower()),
        "log_dictconfig": {"formatters": {}, "handlers": handlers, "root": root, "loggers": {}},
    }


def _load() -> None:
    """Load the code of the application before the processes begin, so that they have it in common."""
    begin_loading()
    importlib.import_module("migration_service.app")
    end_loading()


def _begin() -> None:
    """Begin a process, which then loads the application. `wsgi.py` has the end of that."""
    # The main process ends those that are still loading, too.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The system may give a signal to any thread that does not block it, but Python handles it in the main one
    # that granian lets sleep. A busy process then goes on, and is killed later with the requests it has.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_obey, name="signals", daemon=True).start()
    begin_loading()


def _obey() -> None:
    """Call the handler of every SIGTERM, or end the process while it has none."""
    while True:
        handler = signal.getsignal(signal.sigwait({signal.SIGTERM}))
        if not callable(handler):
            os._exit(0)
        handler(signal.SIGTERM, None)


def _empty(folder: Path) -> None:
    """Begin at zero: remove the files of an earlier start, because process ids are used again."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.db"):
        file.unlink()


if __name__ == "__main__":
    main()
