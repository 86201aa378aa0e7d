"""The faults. Each is a function of the scene that returns when the fault is over."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import psutil

from drill.scene import GOING_LIVE, REPLACING, TAKING_BACK, WORKING, Scene
from support.servers import processes_in, wait_until

#: Longer than a message may stay unacknowledged (`scene.VISIBILITY_TIMEOUT`), so that it is redelivered.
_WORKER_FROZEN = 20.0
#: Longer than every time-out for Redis, and than its health check.
_VALKEY_FROZEN = 12.0
#: Longer than the time-outs for connecting, for locks and for the pool.
_POSTGRES_FROZEN = 10.0
#: Until the supplier of books has come round to an act again.
_UNTIL_THE_MIDDLE = 240

Fault = Callable[[Scene, Random], object]


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def _busy_child(scene: Scene) -> psutil.Process:
    """Return a worker child that is creating an account at this moment, or any if none is."""
    deadline = time.monotonic() + 3
    while True:
        if process := scene.worker_at(WORKING):
            return process
        # A worker that was just restarted has no children for a while.
        children = scene.main_process("interactive").children()
        if children and time.monotonic() > deadline:
            return children[0]
        assert time.monotonic() < deadline + 60, "the worker has no children"
        time.sleep(0.02)


def _kill_group(name: str) -> Fault:
    return lambda scene, _chance: scene.kill(name)


def _kill_in_the_middle(of: str) -> Fault:
    """Kill the background worker as soon as a session of PostgreSQL has this name: nothing is committed."""
    working = "SELECT FROM pg_stat_activity WHERE application_name = %s"

    def kill(scene: Scene, _chance: Random) -> None:
        wait_until(lambda: bool(scene.query(working, of)), f"a session {of}", _UNTIL_THE_MIDDLE)
        scene.kill("background")

    return kill


def _kill_workers_and_valkey(scene: Scene, _chance: Random) -> None:
    scene.kill("interactive")
    scene.kill("valkey")


def _wipe_valkey(scene: Scene, _chance: Random) -> None:
    """Delete its files and kill it. It starts again empty."""
    for file in Path(scene.home / "valkey" / "appendonlydir").iterdir():
        file.unlink()
    scene.kill("valkey")


def _freeze(folder: str, seconds: float) -> Fault:
    """Freeze all processes that work in this folder of the service for some seconds."""

    def freeze(scene: Scene, _chance: Random) -> None:
        with frozen(processes_in(scene.home / folder)):
            time.sleep(seconds)

    return freeze


def _freeze_worker_child(scene: Scene, _chance: Random) -> None:
    with frozen([_busy_child(scene)]):
        time.sleep(_WORKER_FROZEN)


@contextmanager
def frozen(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Freeze these processes within the `with` statement (SIGSTOP, SIGCONT)."""
    signal_all(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        signal_all(processes, signal.SIGCONT)


def signal_all(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to those of these processes that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


#: Every kind of fault by its name in the table.
FAULTS: dict[str, Fault] = {
    "worker child killed": lambda scene, _chance: _kill(_busy_child(scene)),
    "worker's main process killed": lambda scene, _chance: _kill(scene.main_process("interactive")),
    "whole worker killed": _kill_group("interactive"),
    "background worker killed": _kill_group("background"),
    "killed while it replaces": _kill_in_the_middle(REPLACING),
    "killed while it takes back": _kill_in_the_middle(TAKING_BACK),
    "killed while it goes live": _kill_in_the_middle(GOING_LIVE),
    "web server killed": _kill_group("web"),
    "one web process killed": lambda scene, chance: _kill(
        chance.choice(scene.main_process("web").children())
    ),
    "beat killed": _kill_group("beat"),
    "Valkey killed, data kept": _kill_group("valkey"),
    "Valkey killed, data wiped": _wipe_valkey,
    "Valkey flushed": lambda scene, _chance: scene.redis.flushall(),
    "worker and Valkey killed": _kill_workers_and_valkey,
    "PostgreSQL killed": _kill_group("postgres"),
    "worker child frozen": _freeze_worker_child,
    "whole worker frozen": _freeze("programs/interactive", _WORKER_FROZEN),
    "Valkey frozen": _freeze("valkey", _VALKEY_FROZEN),
    "PostgreSQL frozen": _freeze("postgres", _POSTGRES_FROZEN),
}


def deal(rounds: int, chance: Random, kinds: Sequence[str]) -> list[str]:
    """Return the names of `count` faults. Every kind occurs once before any is repeated."""
    dealt: list[str] = []
    while len(dealt) < rounds:
        deck = list(kinds)
        chance.shuffle(deck)
        dealt += deck
    return dealt[:rounds]
