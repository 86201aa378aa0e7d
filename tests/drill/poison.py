"""An account that kills every worker child that creates it. The drill does the killing.

A trigger holds the worker in the middle of its transaction, and the process at the other end of the
connection is killed. After its tries the account has to be reported as failed.
"""

import threading
import time

import psutil
import psycopg

from drill.scene import POISONED, Scene


class Poisoner(threading.Thread):
    """Kills every worker child that creates a poisoned account, until `stop`."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(name="poisoner", daemon=True)
        self._scene = scene
        self._over = threading.Event()
        #: When each process was killed (monotonic).
        self.killed: list[float] = []

    def run(self) -> None:
        """Check five times per second, while the trigger holds a worker."""
        while not self._over.wait(0.2):
            try:
                victim = self._scene.worker_at(POISONED)
            except psycopg.Error:  # PostgreSQL is affected by a fault
                continue
            if victim is not None:
                self._kill(victim)

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _kill(self, victim: psutil.Process) -> None:
        try:
            victim.kill()
            victim.wait(5)
        except psutil.Error:
            return
        self.killed.append(time.monotonic())
