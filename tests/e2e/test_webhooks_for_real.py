"""Webhooks sent by real workers, while workers, Redis, PostgreSQL and receivers are killed.

MIGRATION_SERVICE_WEBHOOK_EVENTS=50000 makes a long run of it.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.outgoing.rules import AddressRules
from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record
from migration_service.services.webhooks.endpoints import create_endpoint
from migration_service.services.webhooks.secrets import Seal
from support.factories import Customer, make_customer
from support.receivers import Receiver
from support.servers import EmbeddedServers, wait_until
from support.workers import BEAT, worker

pytestmark = pytest.mark.long

EVENTS = int(os.environ.get("MIGRATION_SERVICE_WEBHOOK_EVENTS", "200"))
_IS_LONG = EVENTS > 1_000
#: How often something is killed.
_KILLS = 20 if _IS_LONG else 4
#: What a receiver does at first. Those that recover answer after half of the events.
_RECOVER = ("answer", "fail", "hang", "cut")
_NEVER = ("redirect", "gone")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    for child in psutil.Process(process.pid).children(recursive=True):
        child.send_signal(signal.SIGKILL)
    process.kill()
    process.wait()


class _Ids(list[Any]):
    """What a receiver was sent: the ids only, because there are many."""

    def append(self, request: Any) -> None:
        super().append(request[0]["webhook-id"])


class _Endpoints:
    """A receiver for each kind, with its endpoint."""

    def __init__(self, sessions: sessionmaker[Session], customer: Customer) -> None:
        rules = AddressRules.from_texts("127.0.0.0/8", allows_http=True)
        self.sent: dict[str, list[str]] = {kind: _Ids() for kind in (*_RECOVER, *_NEVER)}
        self._receivers = {kind: self._start(kind) for kind in self.sent}
        for kind, receiver in self._receivers.items():
            values = {"url": receiver.url, "description": kind}
            with sessions.begin() as session:
                create_endpoint(session, customer.organisation_id, rules, Seal([]), values)

    def restart(self, kind: str) -> None:
        """Kill a receiver, and start it again on its port."""
        receiver = self._receivers[kind]
        receiver.close()
        self._receivers[kind] = self._start(kind, receiver.port)
        self._receivers[kind].manner = receiver.manner

    def recover(self) -> None:
        for kind in _RECOVER:
            self._receivers[kind].answer(204)
            self._receivers[kind].let_go.set()

    def close(self) -> None:
        for receiver in self._receivers.values():
            receiver.close()

    def _start(self, kind: str, port: int = 0) -> Receiver:
        receiver = Receiver(port)
        receiver.requests = self.sent[kind]  # type: ignore[assignment]
        match kind:
            case "hang" | "cut":
                receiver.manner = kind
            case "fail":
                receiver.answer(503)
            case "gone":
                receiver.answer(410)
            case "redirect":
                receiver.answer(307, Location=f"{receiver.url}/elsewhere")
        return receiver


@pytest.mark.timeout(3600 if _IS_LONG else 300)
def test_each_event_arrives_at_each_endpoint_that_recovers_whatever_is_killed(
    prepared_servers: Path, tmp_path: Path
) -> None:
    chance = Random(EVENTS)
    with EmbeddedServers.copy_of(prepared_servers, durable=True) as servers, ExitStack() as over:
        engine = make_engine(servers.database_url, pool_size=2, max_overflow=0, application_name="tests")
        over.callback(engine.dispose)
        sessions = make_sessionmaker(engine)
        customer = make_customer(sessions)
        endpoints = _Endpoints(sessions, customer)
        over.callback(endpoints.close)
        running = ExitStack()
        over.callback(running.close)
        addresses = {"DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url}

        def start() -> "subprocess.Popen[bytes]":
            return running.enter_context(
                worker("deliveries,maintenance", tmp_path, *BEAT, "-c", "2", **addresses)
            )

        process = start()
        victims = chance.sample(["valkey", "postgres", "receiver", "worker"] * (_KILLS // 4), _KILLS)
        # What was claimed while PostgreSQL was killed waits for the end of its lease.
        victims.append("worker")
        for number, victim in enumerate(victims):
            if number == _KILLS // 2:
                endpoints.recover()
            for _ in range(EVENTS // len(victims)):
                with sessions.begin() as session:
                    record(session, EventType.BATCH_ENDED, {}, organisation_id=customer.organisation_id)
            wait_until(partial(_have_arrived, sessions, 30 * number), "the first messages", 120)
            match victim:
                case "worker":
                    _kill(process)
                    running.close()
                    # Let the time pass after which a worker counts as dead.
                    _run(
                        sessions,
                        "UPDATE webhook_delivery SET next_attempt_at = now() WHERE state = 'PENDING'",
                    )
                    process = start()
                case "receiver":
                    endpoints.restart(chance.choice(_RECOVER))
                case server:
                    servers.kill(server)
                    servers.start(server)
                    engine.dispose()
        count = EVENTS // len(victims) * len(victims)
        patience = 1800 if _IS_LONG else 120
        wait_until(
            lambda: (
                _hurry(sessions)
                and _have_arrived(sessions, len(_RECOVER) * count)
                and all(set(endpoints.sent[kind]) == set(endpoints.sent["answer"]) for kind in _RECOVER)
            ),
            "everything has arrived",
            patience,
        )
        recorded = [str(row.id) for row in _run(sessions, "SELECT id FROM event ORDER BY transaction_id, id")]
        # That the endpoint which is gone was switched off is an event, too.
        arrived = set(endpoints.sent["answer"])
        told = [id_ for id_ in recorded if id_ in arrived]
        assert len(told) >= count
        for kind in _RECOVER:
            assert set(endpoints.sent[kind]) == set(told), kind
        off = _run(sessions, "SELECT description FROM webhook_endpoint WHERE disabled_reason IS NOT NULL")
        assert [row.description for row in off] == ["gone"]
        if _IS_LONG:
            more = {kind: len(ids) - len(told) for kind, ids in endpoints.sent.items() if kind in _RECOVER}
            sys.stdout.write(f"{len(told)} events; sent more than once: {more}\n")


def _have_arrived(sessions: sessionmaker[Session], deliveries: int) -> bool:
    counted = """
        SELECT count(DISTINCT (endpoint_id, event_id)) AS number FROM webhook_delivery
        JOIN webhook_endpoint ON webhook_endpoint.id = endpoint_id
        WHERE state = 'DELIVERED' AND description = ANY (:kinds) AND event_type = 'batch.ended'"""
    return bool(_run(sessions, counted, kinds=list(_RECOVER))[0].number >= deliveries)


def _hurry(sessions: sessionmaker[Session]) -> bool:
    """Let the time pass until the next attempts."""
    _run(
        sessions,
        "UPDATE webhook_delivery SET next_attempt_at = now() WHERE state = 'PENDING' AND attempts > 0",
    )
    time.sleep(5.0 if _IS_LONG else 0.5)
    return True


def _run(sessions: sessionmaker[Session], statement: str, **values: Any) -> list[Any]:
    with sessions.begin() as session:
        result: Any = session.execute(text(statement), values)
        return list(result) if result.returns_rows else []
