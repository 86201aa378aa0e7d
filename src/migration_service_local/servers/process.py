"""Child programs: starting them, finding them again after a crash, and stopping them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from migration_service_local.servers.account import ServerAccount

_LAUNCHER = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, kw_only=True)
class Program:
    """The way to run a program.

    `folder` is its working directory, which no other program has. It identifies our processes, even if
    process ids are reused.
    """

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    #: Signals, each with the seconds that the program then has to end. SIGKILL follows.
    stop: Sequence[tuple[signal.Signals, float]]
    #: The signal that it gets if we are killed (Linux only).
    death_signal: signal.Signals = signal.SIGKILL
    #: The account that runs it, or None for ours.
    account: ServerAccount | None = None
    #: Called before each start, including the one after a crash.
    before_start: Callable[[], object] = field(default=lambda: None)


class Child:
    """A running program. Raise RuntimeError outside the main thread.

    Linux ties a child to the *thread* that started it, and only the main thread lives as long as the process.
    """

    def __init__(self, program: Program, output: int | IO[bytes] | None) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("programs are started from the main thread only")
        program.before_start()
        self.program = program
        self.process = _spawn(program, output)
        self._signals = list(program.stop)
        self._deadline = 0.0
        self._swept = False

    def has_ended(self) -> bool:
        """Return True if it has ended. Its own children are then killed, too."""
        if self.process.poll() is None:
            return False
        if not self._swept:
            # Immediately, and only once: later the number may belong to another program.
            self._swept = True
            self.kill()
        return True

    def kill(self) -> None:
        """Kill it and all its children immediately (SIGKILL)."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # Nothing is left. (macOS reports "not permitted" if only zombies are left.)
            return

    def escalate(self) -> None:
        """Send the next stop signal if the time of the previous one has passed."""
        if time.monotonic() < self._deadline:
            return
        if not self._signals:
            self.kill()
            return
        number, seconds = self._signals.pop(0)
        self.process.send_signal(number)
        self._deadline = time.monotonic() + seconds


def _spawn(program: Program, output: int | IO[bytes] | None) -> subprocess.Popen[bytes]:
    switch = program.account is not None and program.account.switch
    user, group = (program.account.user, program.account.group) if program.account and switch else (-1, -1)
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER)]
    ties = [str(os.getpid()), str(int(program.death_signal)), str(user), str(group)]
    return subprocess.Popen(
        [*launcher, *ties, *program.arguments],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # It has its own session. Ctrl-C on the terminal reaches only us, and we stop our children in order.
        start_new_session=True,
    )


def stop_children(children: Sequence[Child], *, hurry: Callable[[], bool] = lambda: False) -> None:
    """Stop all of these in parallel and return when all have ended. Kill them once `hurry` returns True."""
    left = list(children)
    while left := [child for child in left if not child.has_ended()]:
        for child in left:
            if hurry():
                child.kill()
            else:
                child.escalate()
        time.sleep(0.02)
