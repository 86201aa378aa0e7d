"""gunicorn's settings, for `migration-service up` and for containers alike.

Threads, because a process request waits for its worker. Each process has more of them than the 250
accounts that may be processed at once, as the system may hand most connections to one process: so the
next request is answered 429 instead of queueing for a thread, and status and stage requests get through
meanwhile. A thread is made when it is needed, and costs little.
"""

import os
import shutil
import tempfile
from pathlib import Path

from gunicorn.arbiter import Arbiter

from migration_service.config import Settings
from migration_service.log import make_handler

_SETTINGS = Settings.from_env()

wsgi_app = "wsgi:app"
# gunicorn's threaded worker, which cuts off clients that send too slowly.
worker_class = "migration_service.web_worker.PacedWorker"
workers = 2
threads = 320
# More connections than threads: those that are kept alive between two requests need none.
worker_connections = 2000
# The heartbeat of a web worker process, not a limit for requests: those have a time limit of their own.
timeout = 60
# Longer than a process request waits for its outcome.
graceful_timeout = 40
# Longer than clients keep an idle connection for the next request: http.client meets a closed one otherwise.
# An idle connection waits in a selector and needs no thread.
keepalive = 75
# One line a request is logged by the service itself, with the request's id.
accesslog = None
# gunicorn's own lines in the same form as all others.
logconfig_dict = {
    "handlers": {"console": {"()": make_handler, "log_format": _SETTINGS.log_format}},
    "root": {"level": _SETTINGS.log_level.upper(), "handlers": ["console"]},
    "loggers": {"gunicorn.error": {"handlers": [], "propagate": True}},
}
# No second way in beside the signals.
control_socket_disable = True

# Every worker process keeps its metrics in a file of this folder. The process that is asked adds up all of
# them, those of a dead process included. The variable must be set before anything imports prometheus_client,
# which reads it once.
_METRICS_FOLDER = Path(_SETTINGS.metrics_folder or tempfile.mkdtemp(prefix="migration-service-metrics-"))
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_METRICS_FOLDER)


def on_starting(_server: Arbiter) -> None:
    """Begin at zero: remove the files of an earlier start, because process ids are used again."""
    _METRICS_FOLDER.mkdir(parents=True, exist_ok=True)
    for file in _METRICS_FOLDER.glob("*.db"):
        file.unlink()


def on_exit(_server: Arbiter) -> None:
    """Remove the folder if this server made it."""
    if not _SETTINGS.metrics_folder:
        shutil.rmtree(_METRICS_FOLDER, ignore_errors=True)
