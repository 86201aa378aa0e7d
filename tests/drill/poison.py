"""An account that kills every worker child that touches it: the drill plays its part in that.

A trigger holds the worker in the middle of its transaction, and the process at the other end of that
connection is killed. After its tries the account has to be reported as failed.
"""

import threading
import time

import psutil
import psycopg

from drill.scene import POISONED, Scene


class Poisoner(threading.Thread):
    """Kills whoever creates a poisoned account, until `stop`."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(name="poisoner", daemon=True)
        self._scene = scene
        self._over = threading.Event()
        #: When each victim died (monotonic).
        self.killed: list[float] = []

    def run(self) -> None:
        """Look twenty times a second."""
        while not self._over.wait(0.05):
            try:
                victim = self._scene.worker_at(POISONED)
            except psycopg.Error:  # PostgreSQL is having its own trouble
                continue
            if victim is not None:
                self._kill(victim)

    def stop(self) -> None:
        """No more killing."""
        self._over.set()
        self.join()

    def _kill(self, victim: psutil.Process) -> None:
        try:
            victim.kill()
            victim.wait(5)
        except psutil.Error:
            return
        self.killed.append(time.monotonic())
