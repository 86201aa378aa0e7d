"""Stage, validate and status compared with peer a, and status with an empty endpoint of the same server."""

from collections.abc import Callable

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates

_PEER = "a: FastAPI + pydantic + asyncpg"


def measure_staging(bench: Bench) -> Row:
    """Measure new accounts that are staged per second, with all rules."""
    url = bench.peer_url + probes.STAGE
    return _beside_peer(bench, "stage", probes.stage, lambda s: probes.send_payloads(bench, url, s), 1.0)


def measure_validation(bench: Bench) -> Row:
    """Measure validated accounts per second, with all rules. The peer checks fields and few rules."""
    url = bench.peer_url + probes.VALIDATE
    return _beside_peer(
        bench, "validate", probes.validate, lambda s: probes.send_payloads(bench, url, s), 1.4
    )


def measure_status(bench: Bench) -> list[Row]:
    """Measure the status of existing accounts, the peer's status, and /health/live."""
    url = bench.peer_url + probes.STATUS
    beside_empty = alternate(
        bench.extent.rounds,
        lambda: probes.status(bench, bench.extent.seconds),
        lambda: probes.live(bench, bench.extent.seconds),
    )
    empty = "the same server's /health/live"
    return [
        _beside_peer(bench, "status", probes.status, lambda s: probes.ask_status(bench, url, s), 1.2),
        compared_rates("status", "requests/s", beside_empty, peer_name=empty, goal="", needed=None),
    ]


def _beside_peer(
    bench: Bench,
    what: str,
    ours: Callable[[Bench, float], Reading],
    peer: Callable[[float], Reading],
    needed: float,
) -> Row:
    ours(bench, 1)
    peer(1)
    seconds = bench.extent.seconds
    readings = alternate(bench.extent.rounds, lambda: ours(bench, seconds), lambda: peer(seconds))
    goal = f"at least {needed} x peer a"
    return compared_rates(what, "requests/s", readings, peer_name=_PEER, goal=goal, needed=needed)
