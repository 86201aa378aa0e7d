"""Load from the suppliers' Python client, compared with wrk: the same requests to the same endpoint.

A supplier's machine is another one, so the service has one half of the processors, and who sends the other.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates

_CLIENTS = 32
_KINDS = {"threads": f"{_CLIENTS} threads", "asyncio": f"asyncio, {_CLIENTS} tasks"}
#: The client wants to know what of an account is new.
_STAGE = f"{probes.STAGE}?report=full"


def measure_client(bench: Bench) -> list[Row]:
    """Measure requests a second with threads and with asyncio, for one endpoint after the other."""
    with _processors_of_their_own(bench):
        return [row for what in ("stage", "process", "status") for row in _measure(bench, what)]


@contextmanager
def _processors_of_their_own(bench: Bench) -> Iterator[None]:
    everywhere = sorted(os.sched_getaffinity(0))
    half = len(everywhere) // 2
    served = [it.pid for name in bench.stack.children for it in bench.stack.processes(name)]
    if half:
        _limit(served, everywhere[:half])
        _limit([os.getpid()], everywhere[half:])
    try:
        yield
    finally:
        _limit([os.getpid(), *served], everywhere)


def _limit(processes: list[int], processors: list[int]) -> None:
    """Let all threads of the processes, and what they start from now on, run on these processors only."""
    for process in processes:
        with suppress(OSError):  # it has ended
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setaffinity(int(thread.name), processors)


def _measure(bench: Bench, what: str) -> list[Row]:
    loads: list[Callable[[float], Reading]] = [
        partial(_wrk, bench, what),
        *(partial(_client, bench, what, kind) for kind in _KINDS),
    ]
    for load in loads:
        load(1)
    seconds = bench.extent.seconds
    wrk, *ours = alternate(bench.extent.rounds, *(partial(load, seconds) for load in loads))
    return [
        compared_rates(
            f"{what} by the client, {name}",
            "requests/s",
            (readings, wrk),
            peer_name="wrk",
            than="wrk",
            needed=0.9,
        )
        for name, readings in zip(_KINDS.values(), ours, strict=True)
    ]


def _wrk(bench: Bench, what: str, seconds: float) -> Reading:
    if what == "process":
        return probes.process(bench, seconds, _CLIENTS, keyed=True)
    if what == "stage":
        return probes.send_payloads(bench, seconds, _STAGE, clients=_CLIENTS)
    return probes.ask_status(bench, seconds, clients=_CLIENTS)


def _client(bench: Bench, what: str, kind: str, seconds: float) -> Reading:
    bodies, first, count = bench.bodies, 0, bench.templates
    if what == "process":
        bodies = bench.process_body
        first, count = probes.stage_ahead(bench, seconds, _CLIENTS)
    elif what == "stage":
        count = probes.FRESH
        first = bench.take_numbers(count)
    return bench.peer_reading("supplier_client.py", kind, what, str(seconds), f"{first}:{count}", str(bodies))
