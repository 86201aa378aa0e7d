"""A web server of its own for a test, which the test may stop."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import requests

from migration_service.config import Settings
from migration_service_local.servers.ports import LOOPBACK
from support.servers import ending_with_us, wait_until

ROOT = Path(__file__).parents[2]


@contextmanager
def web_server(
    settings: Settings, port: int, variables: Mapping[str, str] = {}, *, processes: int = 2, threads: int = 20
) -> Iterator[subprocess.Popen[bytes]]:
    """Run gunicorn on `port`, with further `variables` of its environment, until it is stopped."""
    environment = os.environ | {
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": settings.secret_key,
        "MIGRATION_SERVICE_HOME": str(settings.home),
    }
    server = subprocess.Popen(
        ending_with_us(
            *(sys.executable, "-m", "gunicorn", "--config", str(ROOT / "gunicorn.conf.py")),
            *("--bind", f"{LOOPBACK}:{port}", "--workers", str(processes), "--threads", str(threads)),
        ),
        cwd=ROOT,
        env=environment | dict(variables),
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: is_answered(port), "the web server")
        yield server
    finally:
        server.terminate()
        server.wait(60)


def is_answered(port: int, timeout: float = 2.0) -> bool:
    """Return True if a request is answered before any held thread could become free."""
    try:
        return requests.get(f"http://{LOOPBACK}:{port}/health/live", timeout=timeout).ok
    except requests.RequestException:
        return False
