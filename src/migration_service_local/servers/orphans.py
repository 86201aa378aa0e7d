"""Stops programs that a killed copy of the service left running. No stored process id is trusted."""

import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from migration_service_local.errors import StartError

#: The signal for an orphan. PostgreSQL, Valkey, granian and Celery all end cleanly on it.
_POLITE = signal.SIGINT
SECONDS = 15.0


def stop_orphans(folder: Path, program: str) -> int:
    """Stop every process of `program` in `folder`. Return how many there were.

    Wait until all have ended, because two PostgreSQL servers on one data folder would corrupt it. Raise
    StartError if one does not end.
    """
    orphans = find_processes(folder, program)
    left = orphans
    for number in (_POLITE, signal.SIGKILL):
        for process in _eldest(left) if number == _POLITE else left:
            _send(process, number)
        deadline = time.monotonic() + SECONDS
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = find_processes(folder, program)
    if left:
        raise StartError(f"Process {left[0].pid} ({program}) uses {folder} and cannot be stopped.")
    return len(orphans)


def find_processes(folder: Path, program: str) -> list[psutil.Process]:
    """Return our processes of `program` in `folder`, except zombies."""
    return [process for process in psutil.process_iter() if _belongs(process, folder, program)]


def program_name(command_line: Sequence[str]) -> str:
    """Return the program of a command line such as `python -m celery ...` or `postgres: writer`."""
    if list(command_line[1:2]) == ["-m"]:
        return "".join(command_line[2:3])
    # The title that a server sets is a single text: `postgres: user database 127.0.0.1(5000) idle`.
    title = "".join(command_line[:1])
    return re.split("[: ]", Path(title).name)[0] if "/" in title.split(" ")[0] else re.split("[: ]", title)[0]


def _belongs(process: psutil.Process, folder: Path, program: str) -> bool:
    try:
        command_line = process.cmdline()
        if program_name(command_line) != program or process.status() == psutil.STATUS_ZOMBIE:
            return False
        # In a container root may see the command line of another user's process, but not its folder.
        named = any(Path(argument).is_relative_to(folder) for argument in command_line[1:])
        return process.pid != os.getpid() and (named or Path(process.cwd()) == folder)
    except (psutil.Error, OSError):
        return False


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _eldest(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes whose parent is not among them.

    They stop their own children in the right order.
    """
    known = {process.pid for process in processes}
    return [process for process in processes if _parent(process) not in known]


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return 0
