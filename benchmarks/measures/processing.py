"""The process endpoint, compared with peer b: an empty Celery task and its result."""

from statistics import median

from benchmarks.bench import Bench, Row, alternate, median_ratio

CLIENTS = 64


def measure_one_client(bench: Bench) -> Row:
    """Measure the median time of requests that are sent one after the other."""
    seconds = bench.extent.seconds / 2
    bench.process(seconds=1, clients=1, expected_rate=400)
    mine, peers = alternate(
        bench.extent.rounds,
        lambda: bench.process(seconds=seconds, clients=1, expected_rate=400).p50_ms,
        lambda: bench.peer("empty_task.py", "latency", str(seconds))["p50_ms"],
    )
    more = median(one - other for one, other in zip(mine, peers, strict=True))
    return Row(
        "process, one client, median",
        median(mine),
        "ms",
        "at most peer b + 4 ms",
        more <= 4,
        median(peers),
        "b: an empty Celery task",
        {"difference": more, "ours": mine, "peer": peers},
    )


def measure_many_clients(bench: Bench) -> Row:
    """Measure accounts per second with 64 clients."""

    def empty_tasks() -> float:
        result = bench.peer("empty_task.py", "rate", str(bench.extent.seconds), str(CLIENTS))
        return float(result["requests"] / result["seconds"])

    mine, peers = alternate(
        bench.extent.rounds,
        lambda: bench.process(seconds=bench.extent.seconds, clients=CLIENTS, expected_rate=700).rate,
        empty_tasks,
    )
    ratio = median_ratio(mine, peers)
    return Row(
        "process, 64 clients",
        median(mine),
        "accounts/s",
        "at least 0.5 x peer b",
        ratio >= 0.5,
        median(peers),
        "b: an empty Celery task",
        {"ratio": ratio, "ours": mine, "peer": peers},
    )
