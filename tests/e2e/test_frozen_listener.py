"""A web process that was frozen while a key was revoked refuses it as soon as it goes on."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import requests
from sqlalchemy.orm import Session, sessionmaker

from drill.scene import Address, obtain_token
from migration_service.config import Settings
from migration_service.db.reference_data.lease import wait_out_lease
from migration_service.services.access.api_keys import revoke_api_key
from migration_service_local.servers.ports import LOOPBACK
from support.factories import Customer, make_customer
from support.servers import wait_until

ROOT = Path(__file__).parents[2]
LEASE = 1.0


@pytest.fixture
def customer(sessions: sessionmaker[Session]) -> Customer:
    return make_customer(sessions)


@pytest.fixture
def server(migrated: Settings) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a web server with one worker process, and that process."""
    with socket.create_server((LOOPBACK, 0)) as probe:
        port = int(probe.getsockname()[1])
    environment = os.environ | {
        "DATABASE_URL": migrated.database_url,
        "REDIS_URL": migrated.redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": migrated.secret_key,
        "MIGRATION_SERVICE_HOME": str(migrated.home),
        "MIGRATION_SERVICE_REFERENCE_LEASE_SECONDS": str(LEASE),
    }
    arguments = ("--bind", f"{LOOPBACK}:{port}", "--workers", "1", "--threads", "4")
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--config", str(ROOT / "gunicorn.conf.py"), *arguments],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://{LOOPBACK}:{port}"
    try:
        wait_until(lambda: _answers(url), "the web server")
        (worker,) = psutil.Process(process.pid).children()
        yield url, worker
    finally:
        process.terminate()
        process.wait(60)


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/health/live", timeout=5).ok
    except requests.RequestException:
        return False


def test_a_process_that_was_frozen_knows_that_a_key_was_revoked_and_its_connection_ends_with_it(
    server: tuple[str, psutil.Process], customer: Customer, sessions: sessionmaker[Session]
) -> None:
    url, worker = server
    assert _count_listeners(sessions) == 0, "one is opened by the first request that needs it"
    token = obtain_token(Address(url, customer.api_key))

    def ask() -> int:
        path = f"{url}/v1/data-import/account-transfer-status/{customer.import_supplier}/1/"
        return requests.get(path, headers={"Authorization": f"Token {token}"}, timeout=60).status_code

    def is_kept() -> bool:
        assert ask() == 404
        metrics = requests.get(f"{url}/metrics", timeout=60).text
        return 'migration_reference_reads_total{source="memory"}' in metrics

    wait_until(is_kept, "a caller that is kept")
    with ThreadPoolExecutor(1) as pool:
        worker.send_signal(signal.SIGSTOP)
        try:
            # It waits in the socket, and is the first thing that the process does when it goes on.
            asked = pool.submit(ask)
            with sessions.begin() as session:
                revoke_api_key(session, customer.prefix)
            wait_out_lease(LEASE)
        finally:
            worker.send_signal(signal.SIGCONT)
        assert asked.result(60) == 401
    wait_until(lambda: _count_listeners(sessions) == 1, "the connection")
    worker.terminate()
    wait_until(lambda: _count_listeners(sessions) == 0, "its end", 60)


def _count_listeners(sessions: sessionmaker[Session]) -> int:
    with sessions() as session:
        counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'migration-listener'"
        return int(session.connection().exec_driver_sql(counted).scalar_one())
