"""A worker of its own for a test, which the test may kill."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.servers import running
from support.web_servers import ROOT

#: What beat needs beside a worker.
BEAT = ("-B", "-s", "schedule")


@contextmanager
def worker(
    queues: str, folder: Path, *options: str, python: str = sys.executable, **variables: str
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a worker of these queues in a folder, which gets its log as `worker.log`, until it is stopped.

    It is a process group. It may send webhooks to this machine. `variables` are those of its environment.
    Another version has its own `python`.
    """
    environment = os.environ | {
        "MIGRATION_SERVICE_HOME": str(folder),
        "MIGRATION_SERVICE_WEBHOOK_HTTP": "on",
        "MIGRATION_SERVICE_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "PYTHONPATH": str(ROOT),
    }
    command = ("celery", "--quiet", "-A", "celery_worker", "worker", "-Q", queues, *options)
    with (folder / "worker.log").open("ab") as log:
        own: dict[str, Any] = {"cwd": folder, "stdout": log, "stderr": log, "start_new_session": True}
        with running(python, "-m", *command, env=environment | variables, **own) as process:
            yield process
