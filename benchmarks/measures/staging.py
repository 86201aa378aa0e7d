"""Staging compared with peer a, and the status endpoint with an empty endpoint of the same server."""

from statistics import median

from benchmarks.bench import STAGE, Bench, Row, alternate, median_ratio
from benchmarks.wrk import run_wrk

#: Simultaneous clients, as a migration tool has them. They keep both processes busy.
CLIENTS = 16


def measure_staging(bench: Bench) -> Row:
    """Measure new accounts that are staged per second, with all rules."""
    ours, theirs = (
        bench.url + STAGE,
        f"http://127.0.0.1:{bench.peer_port}/account-import-process/create-or-update/",
    )
    for url in (ours, theirs):
        bench.stage(url, seconds=1, clients=CLIENTS)
    mine, peers = alternate(
        bench.extent.rounds,
        lambda: bench.stage(ours, seconds=bench.extent.seconds, clients=CLIENTS).rate,
        lambda: bench.stage(theirs, seconds=bench.extent.seconds, clients=CLIENTS).rate,
    )
    ratio = median_ratio(mine, peers)
    return Row(
        "stage",
        median(mine),
        "requests/s",
        "at least 1.0 x peer a",
        ratio >= 1.0,
        median(peers),
        "a: FastAPI + pydantic + asyncpg",
        {"ratio": ratio, "ours": mine, "peer": peers},
    )


def measure_status(bench: Bench) -> Row:
    """Measure the status of existing accounts, and /health/live of the same server."""

    def rate(path: str) -> float:
        load = run_wrk(
            bench.url + path,
            mode="get",
            seconds=bench.extent.seconds,
            clients=CLIENTS,
            token=bench.token,
            count=bench.templates,
        )
        return load.rate

    status = "/v1/data-import/account-transfer-status/BENCH/@NUMBER@/"
    mine, peers = alternate(bench.extent.rounds, lambda: rate(status), lambda: rate("/health/live"))
    ratio = median_ratio(mine, peers)
    return Row(
        "status",
        median(mine),
        "requests/s",
        "at least 0.8 x an empty endpoint",
        ratio >= 0.8,
        median(peers),
        "the same server's /health/live",
        {"ratio": ratio, "ours": mine, "peer": peers},
    )
