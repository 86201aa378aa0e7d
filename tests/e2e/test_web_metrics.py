"""/metrics of a web server with several processes: each process returns the sum of all."""

import signal
from pathlib import Path

import psutil
import requests

from migration_service.config import Settings
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import wait_until
from support.web_servers import is_answered, web_server

COUNT = 'migration_http_request_duration_seconds_count{method="GET",route="/health/live",status="200"} '


def count_requests(url: str) -> float:
    """Return how often /health/live was requested, according to /metrics."""
    text = requests.get(f"{url}/metrics", timeout=10).text
    return sum(float(line.removeprefix(COUNT)) for line in text.splitlines() if line.startswith(COUNT))


def test_metrics_count_all_processes_including_dead_ones(migrated: Settings, tmp_path: Path) -> None:
    port = random_free_port()
    with web_server(migrated, port, {"TMPDIR": str(tmp_path)}) as server:
        check_metrics(psutil.Process(server.pid), port)
    assert not list(tmp_path.glob("migration-service-metrics-*")), "files were left behind"


def check_metrics(master: psutil.Process, port: int) -> None:
    url = f"http://{LOOPBACK}:{port}"
    for _ in range(40):
        # Each request has its own connection, so that both processes get some.
        assert is_answered(port)
    # A request is counted a moment after the client has its last byte.
    wait_until(lambda: count_requests(url) >= 41, "the count")
    counted = count_requests(url)
    victim = master.children()[0]
    victim.send_signal(signal.SIGKILL)
    wait_until(lambda: victim.pid not in {child.pid for child in master.children()}, "its end")
    wait_until(lambda: is_answered(port), "another process")
    wait_until(lambda: count_requests(url) > counted, "the count of the answer of the other process")
