"""A mail server that says nothing holds up nothing but e-mail: no event, no sweep, no webhook."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.connections import make_redis
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.models import AlertEmail
from migration_service.outgoing.rules import AddressRules
from migration_service.schemas.events import EventType
from migration_service.services.events.reading import read_events
from migration_service.services.events.recording import record
from migration_service.services.processing.slots import Slots
from migration_service.services.webhooks.endpoints import create_endpoint
from migration_service.services.webhooks.secrets import Seal
from support.factories import Customer, make_customer
from support.mail_box import SENDER
from support.receivers import Receiver, receiving
from support.servers import EmbeddedServers, wait_until
from support.workers import BEAT, worker

pytestmark = pytest.mark.long


@contextmanager
def _workers(servers: EmbeddedServers, folder: Path, mail_port: int) -> Iterator[None]:
    """Run a worker for each of the queues deliveries and maintenance, and beat."""
    variables = {
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        "MIGRATION_SERVICE_SMTP_URL": f"smtp://127.0.0.1:{mail_port}",
        "MIGRATION_SERVICE_EMAIL_FROM": SENDER,
    }
    with (
        worker("deliveries", folder, "-c", "1", "-n", "deliveries@%h", **variables) as one,
        worker("maintenance", folder, *BEAT, "-c", "1", "-n", "maintenance@%h", **variables) as other,
    ):
        try:
            yield
        finally:
            for process in (one, other):
                # With its children, of which beat would outlive it.
                os.killpg(process.pid, signal.SIGKILL)


def test_a_mail_server_that_says_nothing_holds_up_nothing_but_email(
    prepared_servers: Path, tmp_path: Path
) -> None:
    with (
        EmbeddedServers.copy_of(prepared_servers) as servers,
        socket.create_server(("127.0.0.1", 0)) as silent,
        receiving() as receiver,
    ):
        engine = make_engine(servers.database_url, pool_size=2, max_overflow=0, application_name="tests")
        sessions = make_sessionmaker(engine)
        customer = make_customer(sessions)
        with sessions.begin() as session:
            for number in range(20):
                values = {"event": str(number), "recipient": f"lead{number}@migration.example"}
                session.add(AlertEmail(**values, subject="s", body="b"))
            rules = AddressRules.from_texts("127.0.0.0/8", allows_http=True)
            create_endpoint(session, customer.organisation_id, rules, Seal([]), {"url": receiver.url})
        redis = make_redis(servers.redis_url)
        slots = Slots(redis)
        with _workers(servers, tmp_path, silent.getsockname()[1]):
            for number in range(1, 3):
                wait_until(lambda: _is_sending(sessions), "a message is on its way", 120)
                _record_and_read(sessions, customer, number)
                wait_until(partial(_has, receiver, number), "the webhook is sent", 15)
                wait_until(partial(_was_swept_after, slots, _swept_at(slots)), "another sweep has run", 15)
                assert _is_sending(sessions), "this tells something only while the mail server hangs"
        redis.close()
        engine.dispose()


def _has(receiver: Receiver, number: int) -> bool:
    return len(receiver.requests) >= number


def _swept_at(slots: Slots) -> float:
    return time.time() - (slots.seconds_since_reconcile() or 3600.0)


def _was_swept_after(slots: Slots, moment: float) -> bool:
    return _swept_at(slots) > moment + 1


def _is_sending(sessions: sessionmaker[Session]) -> bool:
    with sessions.begin() as session:
        return session.scalar(select(AlertEmail.id).where(AlertEmail.leased_until > func.now())) is not None


def _record_and_read(sessions: sessionmaker[Session], customer: Customer, number: int) -> None:
    owner = customer.organisation_id
    with sessions.begin() as session:
        record(session, EventType.BATCH_ENDED, {"number": number}, organisation_id=owner)

    def is_read() -> bool:
        with sessions.begin() as session:
            return len(read_events(session, owner, None, limit=10).events) == number

    wait_until(is_read, "the event is in the feed", 5)
