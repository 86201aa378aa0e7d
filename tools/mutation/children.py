"""Runs work in a forked process, and kills it with everything that it started if it takes too long."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path


class Outcome(StrEnum):
    """What became of a change."""

    #: A test failed, or the process of the tests ended by itself.
    KILLED = "killed"
    SURVIVED = "survived"
    #: A test did not end.
    TIMED_OUT = "timed out"
    #: The process ended before its first test.
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended, and the last test that it began."""

    outcome: Outcome
    test: str


class Report:
    """What a child tells its parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self, test: str) -> None:
        """Say that a test begins."""
        self._connection.send(("begin", test))

    def end(self, outcome: Outcome) -> None:
        """Say how all tests ended."""
        self._connection.send(("end", outcome))


def run_in_child(work: Callable[[Report], None], seconds_for: Callable[[str], float], log: Path) -> Ended:
    """Fork, and return how `work` ended. Before its first test, it has the seconds for a test without a name.

    The child writes to `log`.
    """
    receiving, sending = Pipe(duplex=False)
    child = os.fork()
    if not child:
        receiving.close()
        _work(work, Report(sending), log)
    sending.close()
    try:
        return _wait(receiving, seconds_for)
    finally:
        # The child first: it may not lead its group yet.
        for kill in (os.kill, os.killpg):
            with suppress(ProcessLookupError):
                kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        receiving.close()


def _wait(connection: Connection, seconds_for: Callable[[str], float]) -> Ended:
    test = ""
    while connection.poll(seconds_for(test)):
        try:
            what, value = connection.recv()
        except EOFError:
            return Ended(Outcome.KILLED if test else Outcome.NOT_TRIED, test)
        if what == "end":
            return Ended(value, test)
        test = value
    return Ended(Outcome.TIMED_OUT, test)


def _work(work: Callable[[Report], None], report: Report, log: Path) -> None:
    """Work, and end without what a Python process does at its end: that is the parent's business."""
    try:
        os.setsid()
        with log.open("w", buffering=1) as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            sys.stdout = sys.stderr = output
            try:
                work(report)
            except BaseException:
                traceback.print_exc()
    finally:
        os._exit(0)
