"""Processor time (user and system) of the programs of a stack: what one request costs each of them.

Unlike a rate, it hardly depends on other work of the machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks.stack import Stack

#: Milliseconds. Programs that use less for one request only do their idle work.
_NEGLIGIBLE = 0.005


class Meter:
    """The processor seconds that each program used while the `metered` block ran."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def of_one(self, count: int) -> dict[str, float]:
        """Return the milliseconds of one of `count` requests, by program."""
        costs = {name: seconds * 1000 / max(1, count) for name, seconds in self.seconds.items()}
        return {name: round(cost, 4) for name, cost in costs.items() if cost >= _NEGLIGIBLE}


@contextmanager
def metered(stack: Stack) -> Iterator[Meter]:
    """Measure the processor time of the block."""
    meter = Meter()
    before = _used(stack)
    yield meter
    meter.seconds = {name: used - before.get(name, 0.0) for name, used in _used(stack).items()}


def _used(stack: Stack) -> dict[str, float]:
    return {name: sum(map(_of_process, stack.processes(name))) for name in stack.children}


def _of_process(process: psutil.Process) -> float:
    """Return the processor time of a process and of its children that have ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(sum((times.user, times.system, times.children_user, times.children_system)))
