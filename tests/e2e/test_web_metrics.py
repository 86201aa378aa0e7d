"""/metrics of a web server with several processes: each process returns the sum of all."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from migration_service.config import Settings
from migration_service_local.servers.ports import random_free_port
from support.servers import ending_with_us, wait_until

ROOT = Path(__file__).resolve().parents[2]
COUNT = 'migration_http_request_duration_seconds_count{method="GET",route="/health/live",status="200"} '


@pytest.fixture
def server(migrated: Settings, tmp_path: Path) -> Iterator[tuple[psutil.Process, str]]:
    """gunicorn with two processes, and its address."""
    url = f"127.0.0.1:{random_free_port()}"
    process = subprocess.Popen(
        ending_with_us(
            *(sys.executable, "-m", "gunicorn", "--config", str(ROOT / "gunicorn.conf.py")),
            *("--bind", url, "--workers", "2"),
        ),
        cwd=tmp_path,
        env=os.environ
        | {
            "DATABASE_URL": migrated.database_url,
            "REDIS_URL": migrated.redis_url,
            "MIGRATION_SERVICE_SECRET_KEY": migrated.secret_key,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path),
        },
        stderr=subprocess.DEVNULL,
    )
    yield psutil.Process(process.pid), f"http://{url}"
    process.terminate()
    process.wait(60)
    assert not list(tmp_path.glob("migration-service-metrics-*")), "files were left behind"


def answers(url: str) -> bool:
    """Return True if the server answers."""
    try:
        return requests.get(f"{url}/health/live", timeout=10).ok
    except requests.RequestException:
        return False


def count_requests(url: str) -> float:
    """Return how often /health/live was requested, according to /metrics."""
    text = requests.get(f"{url}/metrics", timeout=10).text
    return sum(float(line.removeprefix(COUNT)) for line in text.splitlines() if line.startswith(COUNT))


def test_metrics_count_all_processes_including_dead_ones(server: tuple[psutil.Process, str]) -> None:
    master, url = server
    wait_until(lambda: answers(url), "the web server")
    for _ in range(40):
        # Each request has its own connection, so that both processes get some.
        assert answers(url)
    # A request is counted a moment after the client has its last byte.
    wait_until(lambda: count_requests(url) >= 41, "the count")
    counted = count_requests(url)
    victim = master.children()[0]
    victim.send_signal(signal.SIGKILL)
    wait_until(lambda: victim.pid not in {child.pid for child in master.children()}, "its end")
    wait_until(lambda: answers(url), "another process")
    wait_until(lambda: count_requests(url) > counted, "the count of the answer of the other process")
