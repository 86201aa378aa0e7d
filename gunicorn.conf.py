"""gunicorn's settings, for `migration-service up` and for containers alike.

It uses threads, because a process request waits for its worker. Each process has more threads than the 250
accounts that may be processed at once, because the system may give most connections to one process. So the
next request is answered 429 instead of waiting for a thread, and status and stage requests are still served.
A thread is started when it is needed, and costs little.
"""

import os
import shutil
import tempfile
from pathlib import Path

from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker

from migration_service.config import Settings
from migration_service.leaving import leave_before_ending
from migration_service.loading import begin_loading, end_loading
from migration_service.log import make_handler
from migration_service.shares import THREADS

_SETTINGS = Settings.from_env()

wsgi_app = "wsgi:app"
# gunicorn's threaded worker, which disconnects clients that send too slowly.
worker_class = "migration_service.web_worker.PacedWorker"
workers = 2
threads = THREADS
# More connections than threads, because idle connections need no thread.
worker_connections = 2000
# The heartbeat of a web worker process, not a limit for requests, which have a time limit of their own.
timeout = 60
# Longer than a process request waits for its outcome.
graceful_timeout = 40
# Longer than clients keep an idle connection. Otherwise http.client would use one that is already closed.
# An idle connection waits in a selector and needs no thread.
keepalive = 75
# A file is sent like every other answer, whose client has to read it in time.
sendfile = False
# The service itself logs one line for each request, with its id.
accesslog = None
logger_class = "migration_service.web_worker.ServerLog"
# gunicorn's own log lines have the same form as all others.
logconfig_dict = {
    "handlers": {"console": {"()": make_handler, "log_format": _SETTINGS.log_format}},
    "root": {"level": _SETTINGS.log_level, "handlers": ["console"]},
    "loggers": {"gunicorn.error": {"handlers": [], "propagate": True}},
}
# No control interface besides the signals.
control_socket_disable = True

# Every worker process keeps its metrics in a file of this folder. The process that serves /metrics adds up
# all of them, those of a dead process included. The variable must be set before anything imports
# prometheus_client, which reads it once.
_METRICS_FOLDER = Path(_SETTINGS.metrics_folder or tempfile.mkdtemp(prefix="migration-service-metrics-"))
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_METRICS_FOLDER)


def on_starting(_server: Arbiter) -> None:
    """Begin at zero: remove the files of an earlier start, because process ids are used again."""
    _METRICS_FOLDER.mkdir(parents=True, exist_ok=True)
    for file in _METRICS_FOLDER.glob("*.db"):
        file.unlink()


def when_ready(_server: Arbiter) -> None:
    """Leave the balancer first when the server is told to end."""
    leave_before_ending(_SETTINGS.leave_seconds)


def post_fork(_server: Arbiter, _worker: Worker) -> None:
    """Begin to load the application, which each worker process does by itself."""
    begin_loading()


def post_worker_init(_worker: Worker) -> None:
    """The application has been loaded."""
    end_loading()


def on_exit(_server: Arbiter) -> None:
    """Remove the folder if this server made it."""
    if not _SETTINGS.metrics_folder:
        shutil.rmtree(_METRICS_FOLDER, ignore_errors=True)
