"""Single requests: stage, validate and status beside peer a, and process beside peer b."""

from collections.abc import Callable
from functools import partial

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates, compared_times

_PEER_A, _PEER_B = "a: FastAPI + pydantic + asyncpg", "b: an empty Celery task"


def measure_staging(bench: Bench) -> Row:
    """Measure new accounts that are staged per second, with all rules."""
    return _beside_peer(bench, "stage", probes.stage, 1.0)


def measure_validation(bench: Bench) -> Row:
    """Measure validated accounts per second, with all rules. The peer checks fields and few rules."""
    return _beside_peer(bench, "validate", probes.validate, 1.4)


def measure_status(bench: Bench) -> list[Row]:
    """Measure the status of existing accounts, the peer's status, and /health/live."""
    beside_empty = alternate(
        bench.extent.rounds,
        lambda: probes.ask_status(bench, bench.extent.seconds),
        lambda: probes.live(bench, bench.extent.seconds),
    )
    empty = "the same server's /health/live"
    return [
        _beside_peer(bench, "status", probes.ask_status, 1.2),
        compared_rates("status", "requests/s", beside_empty, peer_name=empty, than="", needed=None),
    ]


def _beside_peer(bench: Bench, what: str, load: Callable[..., Reading], needed: float) -> Row:
    ours, peer = partial(load, bench), partial(load, bench, peer=True)
    ours(1)
    peer(1)
    seconds = bench.extent.seconds
    readings = alternate(bench.extent.rounds, lambda: ours(seconds), lambda: peer(seconds))
    return compared_rates(what, "requests/s", readings, peer_name=_PEER_A, than="peer a", needed=needed)


def measure_one_client(bench: Bench) -> Row:
    """Measure the median time of requests to process that are sent one after the other."""
    seconds = bench.extent.seconds / 2
    probes.process(bench, 1, 1)
    readings = alternate(
        bench.extent.rounds,
        lambda: probes.process(bench, seconds, 1),
        lambda: bench.peer_reading("empty_task.py", str(seconds), "1"),
    )
    what, goal = "process, one client, median", "at most peer b + 3 ms"
    return compared_times(what, readings, peer_name=_PEER_B, goal=goal, relation="difference", most=3)


def measure_many_clients(bench: Bench) -> Row:
    """Measure accounts per second with 64 clients."""
    seconds, clients = bench.extent.seconds, str(probes.MANY_CLIENTS)
    probes.process(bench, 1)
    readings = alternate(
        bench.extent.rounds,
        lambda: probes.process(bench, seconds),
        lambda: bench.peer_reading("empty_task.py", str(seconds), clients),
    )
    what, than = "process, 64 clients", "peer b"
    return compared_rates(what, "accounts/s", readings, peer_name=_PEER_B, than=than, needed=1.4)
