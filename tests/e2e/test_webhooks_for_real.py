"""Webhooks sent by real workers, of which some are killed with everything that they are about to send."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.outgoing.rules import AddressRules
from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record
from migration_service.services.webhooks.endpoints import create_endpoint
from migration_service.services.webhooks.secrets import Seal
from support.factories import Customer, make_customer
from support.receivers import Receiver, receiving
from support.servers import EmbeddedServers, ending_with_us, wait_until

ROOT = Path(__file__).resolve().parents[2]
EVENTS = 300


@contextmanager
def _worker(servers: EmbeddedServers, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a worker of the queues for webhooks and maintenance, and beat."""
    environment = os.environ | {
        "MIGRATION_SERVICE_HOME": str(folder),
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        "MIGRATION_SERVICE_WEBHOOK_HTTP": "on",
        "MIGRATION_SERVICE_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "PYTHONPATH": str(ROOT),
    }
    command = ("celery", "--quiet", "-A", "celery_worker", "worker", "-B", "-c", "2", "-s", "schedule")
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            ending_with_us(sys.executable, "-m", *command, "-Q", "webhooks,maintenance"),
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    for child in psutil.Process(process.pid).children(recursive=True):
        child.send_signal(signal.SIGKILL)
    process.kill()
    process.wait()


def test_each_event_arrives_although_the_worker_redis_and_the_database_are_killed(
    prepared_servers: Path, tmp_path: Path
) -> None:
    with EmbeddedServers.copy_of(prepared_servers) as servers, receiving() as receiver:
        engine = make_engine(servers.database_url, pool_size=2, max_overflow=0, application_name="tests")
        sessions = make_sessionmaker(engine)
        customer = make_customer(sessions)
        for ordered in (False, True):
            _add(sessions, customer, receiver, ordered=ordered)
        with _worker(servers, tmp_path) as worker:
            _tell(sessions, customer)
            wait_until(lambda: len(receiver.requests) > 50, "the first messages")
            _kill(worker)
        _end_leases(sessions)
        with _worker(servers, tmp_path):
            servers.kill("valkey")
            servers.start("valkey")
            servers.kill("postgres")
            servers.start("postgres")
            engine.dispose()
            _end_leases(sessions)
            _tell(sessions, customer)
            wait_until(lambda: not _run(sessions, _WAITING), "everything has arrived", 120)
        recorded = [str(row.id) for row in _run(sessions, "SELECT id FROM event ORDER BY transaction_id, id")]
        assert len(recorded) == 2 * EVENTS
        sent: dict[str, list[str]] = {"/False": [], "/True": []}
        for headers, _body in receiver.requests:
            sent[headers["x-path"]].append(headers["webhook-id"])
        assert {*sent["/False"]} == {*recorded}
        # Each for the first time in the order of the feed.
        assert list(dict.fromkeys(sent["/True"])) == recorded
        engine.dispose()


_WAITING = """
    SELECT FROM webhook_endpoint AS endpoint JOIN event ON event.organisation_id = endpoint.organisation_id
    WHERE NOT EXISTS (SELECT FROM webhook_delivery
                      WHERE endpoint_id = endpoint.id AND event_id = event.id AND state = 'DELIVERED')
    LIMIT 1
"""


def _add(sessions: sessionmaker[Session], customer: Customer, receiver: Receiver, *, ordered: bool) -> None:
    rules = AddressRules.from_texts("127.0.0.0/8", allows_http=True)
    values = {"url": f"http://127.0.0.1:{receiver.port}/{ordered}", "ordered": ordered}
    with sessions.begin() as session:
        create_endpoint(session, customer.organisation_id, rules, Seal([]), values)


def _tell(sessions: sessionmaker[Session], customer: Customer) -> None:
    for _ in range(EVENTS):
        with sessions.begin() as session:
            record(session, EventType.BATCH_ENDED, {}, organisation_id=customer.organisation_id)


def _end_leases(sessions: sessionmaker[Session]) -> None:
    """Let the time pass after which a worker counts as dead."""
    _run(sessions, "UPDATE webhook_delivery SET next_attempt_at = now() WHERE state = 'PENDING'")
    _run(sessions, "UPDATE webhook_endpoint SET leased_until = NULL")


def _run(sessions: sessionmaker[Session], statement: str) -> list[Any]:
    with sessions.begin() as session:
        result: Any = session.execute(text(statement))
        return list(result) if result.returns_rows else []
