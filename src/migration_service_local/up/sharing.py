"""Celery programs that share what they have loaded: `python -m migration_service_local.up.sharing JSON`.

The JSON is a list of [name, folder, arguments of Celery]. Each program is a fork that works in its folder, in
a process group of its own, and is restarted if it dies. SIGTERM stops them all.
"""

import json
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import celery_worker
from celery.__main__ import main as run_celery

from migration_service.loading import end_loading
from migration_service_local.servers.launch import tie_to
from migration_service_local.servers.orphans import stop_orphans

logger = logging.getLogger(__name__)

_PROGRAM = "migration_service_local.up.sharing"
_SHORT_SECONDS = 1.0

Spec = tuple[str, str, list[str]]


class _Forks:
    """The running programs."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[Spec, float]] = {}
        self._is_over = False

    def start(self, spec: Spec) -> None:
        """Fork a program, after what is left of an earlier one was stopped."""
        _, folder, arguments = spec
        stop_orphans(Path(folder), _PROGRAM)
        us = os.getpid()
        # A program that is not noted yet would not be stopped.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        if pid := os.fork():
            self._running[pid] = (spec, time.monotonic())
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            return
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            os.setpgid(0, 0)
            tie_to(us, signal.SIGKILL)
            os.chdir(folder)
            sys.argv = ["celery", *arguments]
            run_celery()
        finally:
            os._exit(1)

    def stop(self, *_: object) -> None:
        """Stop all programs."""
        self._is_over = True
        for pid in self._running:
            os.kill(pid, signal.SIGTERM)

    def watch(self) -> None:
        """Start what dies again, until all have been stopped."""
        while self._running:
            pid, status = os.wait()
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # its children
            spec, begun = self._running.pop(pid)
            if not self._is_over:
                logger.warning(
                    "%s ended with %d, and is restarted", spec[0], os.waitstatus_to_exitcode(status)
                )
                time.sleep(_SHORT_SECONDS if time.monotonic() - begun < _SHORT_SECONDS else 0)
                self.start(spec)


def main() -> None:
    """Load the service, and run the programs."""
    celery_worker.celery.loader.import_default_modules()
    end_loading()
    forks = _Forks()
    signal.signal(signal.SIGTERM, forks.stop)
    for spec in json.loads(sys.argv[1]):
        forks.start(spec)
    forks.watch()


if __name__ == "__main__":
    main()
