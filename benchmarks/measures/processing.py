"""The process endpoint, compared with peer b: an empty Celery task and its result."""

from statistics import median

from benchmarks import probes
from benchmarks.bench import Bench, Row, alternate, compared_rates

_PEER = "b: an empty Celery task"


def measure_one_client(bench: Bench) -> Row:
    """Measure the median time of requests that are sent one after the other."""
    seconds = bench.extent.seconds / 2
    probes.process_one(bench, 1)
    mine, peers = alternate(
        bench.extent.rounds,
        lambda: probes.process_one(bench, seconds),
        lambda: bench.peer_reading("empty_task.py", "latency", str(seconds)),
    )
    times = [[reading.p50_ms or 0.0 for reading in readings] for readings in (mine, peers)]
    more = median(one - other for one, other in zip(*times, strict=True))
    return Row(
        "process, one client, median",
        median(times[0]),
        "ms",
        "at most peer b + 3 ms",
        more <= 3,
        median(times[1]),
        _PEER,
        mine,
        peers,
        {"difference": more},
    )


def measure_many_clients(bench: Bench) -> Row:
    """Measure accounts per second with 64 clients."""
    seconds, clients = bench.extent.seconds, str(probes.MANY_CLIENTS)
    probes.process_many(bench, 1)
    readings = alternate(
        bench.extent.rounds,
        lambda: probes.process_many(bench, seconds),
        lambda: bench.peer_reading("empty_task.py", "rate", str(seconds), clients),
    )
    goal = "at least 1.4 x peer b"
    return compared_rates(
        "process, 64 clients", "accounts/s", readings, peer_name=_PEER, goal=goal, needed=1.4
    )
