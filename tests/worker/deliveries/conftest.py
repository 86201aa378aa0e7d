"""An organisation with events, a real mail server, and senders as a worker has them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from aiosmtpd.controller import Controller
from celery import current_app
from cryptography.fernet import Fernet
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.models import WebhookDelivery, WebhookEndpoint
from migration_service.outgoing.guarded import GuardedClient, RequestLimits
from migration_service.outgoing.rules import AddressRules
from migration_service.schemas.events import EventType
from migration_service.services.deliveries.sender import Sender
from migration_service.services.emails.outbox import has_work
from migration_service.services.events.recording import record
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.webhooks.endpoints import change_endpoint, create_endpoint, get_endpoint
from migration_service.services.webhooks.outbox import Webhooks
from migration_service.services.webhooks.secrets import Seal
from migration_service.tasks import deliveries
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service_local.servers.ports import random_free_port
from support.factories import Customer, close_celery
from support.mail_box import SENDER, Mailbox
from support.messages import noted_messages
from support.receivers import Receiver, receiving
from support.servers import wait_until

RULES = AddressRules.from_texts("127.0.0.0/8", allows_http=True)


class Hooks:
    """The webhooks of an organisation."""

    def __init__(self, sessions: sessionmaker[Session], customer: Customer) -> None:
        self.sessions = sessions
        self.customer = customer
        self.seal = Seal([Fernet.generate_key().decode()])
        self.client = GuardedClient(RULES, RequestLimits(connect_seconds=2, seconds=30))
        self.sender = self.new_sender()

    def new_sender(self) -> Sender:
        return Sender(self.sessions, [Webhooks(self.client, self.seal)])

    def add(self, url: str, **values: Any) -> tuple[UUID, str]:
        """Create an endpoint. Return its id and secret."""
        with self.sessions.begin() as session:
            endpoint, secret = create_endpoint(
                session, self.customer.organisation_id, RULES, self.seal, {"url": url, **values}
            )
            return endpoint.id, secret

    def change(self, endpoint_id: UUID, **values: Any) -> None:
        with self.sessions.begin() as session:
            endpoint = get_endpoint(session, endpoint_id, None)
            change_endpoint(session, endpoint, RULES, values)

    def get(self, endpoint_id: UUID) -> WebhookEndpoint:
        with self.sessions.begin() as session:
            return get_endpoint(session, endpoint_id, None)

    def tell(
        self, number: int = 1, type: EventType = EventType.ACCOUNT_CREATED, *, with_supplier: bool = True
    ) -> None:
        """Record events, each in its own transaction."""
        for _ in range(number):
            with self.sessions.begin() as session:
                supplier = get_import_supplier(session, self.customer.import_supplier, organisation_id=None)
                owner = {"organisation_id": self.customer.organisation_id}
                supplier_id = supplier.id if with_supplier else None
                record(session, type, {"number": number}, import_supplier_id=supplier_id, **owner)

    def send(self, *, until: Callable[[], object] | None = None, sender: Sender | None = None) -> None:
        """Send what is due, until the condition is true, or else until nothing is on its way any more."""
        sending = sender or self.sender

        def is_done() -> bool:
            sending.run(0.05)
            return bool(until() if until else not sending.is_busy and not self.run(_DUE))

        wait_until(is_done, "the messages are sent")

    def deliveries(self, endpoint_id: UUID | None = None) -> list[WebhookDelivery]:
        with self.sessions.begin() as session:
            found = session.query(WebhookDelivery).order_by(WebhookDelivery.id)
            return found.filter_by(endpoint_id=endpoint_id).all() if endpoint_id else found.all()

    def states(self, endpoint_id: UUID | None = None) -> list[str]:
        return [it.state for it in self.deliveries(endpoint_id)]

    def make_due(self) -> None:
        """Let the time pass until the next attempt of each delivery."""
        self.run("UPDATE webhook_delivery SET next_attempt_at = now() WHERE state = 'PENDING'")

    def run(self, statement: str, **values: Any) -> list[Any]:
        with self.sessions.begin() as session:
            result: Any = session.execute(text(statement), values)
            return list(result) if result.returns_rows else []


_DUE = """
    SELECT FROM webhook_delivery JOIN webhook_endpoint AS endpoint ON endpoint.id = endpoint_id
    WHERE state = 'PENDING' AND next_attempt_at <= now() AND endpoint.removed_at IS NULL
      AND (is_replay OR disabled_at IS NULL) AND coalesce(held_until, now()) <= now()
"""


@pytest.fixture
def hooks(sessions: sessionmaker[Session], customer: Customer) -> Iterator[Hooks]:
    hooks = Hooks(sessions, customer)
    yield hooks
    hooks.sender.finish(5)
    hooks.client.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def another() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def send_all() -> int:
    """Let a worker send all that is due. Return the number of attempts."""
    attempts = 0

    def is_done() -> bool:
        nonlocal attempts
        number, _, of = deliveries.send_deliveries().partition(" ")
        attempts += int(number) if of == "attempts" else 0
        with celery_app().resources.Session.begin() as session:
            return not has_work(session)

    # What a thread records between two tasks would not be counted here.
    pause = patch.object(Sender, "record_later")
    with noted_messages(), patch.object(deliveries, "SEND_SECONDS", 0.3), pause:
        wait_until(is_done, "all is sent")
    return attempts


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def controller(mailbox: Mailbox) -> Iterator[Controller]:
    """A real mail server, which a test may stop."""
    controller = Controller(mailbox, hostname="127.0.0.1", port=random_free_port())
    controller.start()
    yield controller
    if not controller.loop.is_closed():
        controller.stop()


@pytest.fixture
def make_celery(migrated: Settings) -> Iterator[Callable[..., MigrationCelery]]:
    """Makes workers' applications with these settings and their own broker, which the tasks use."""
    before = current_app._get_current_object()  # type: ignore[attr-defined]
    made: list[MigrationCelery] = []

    def make(**changed: Any) -> MigrationCelery:
        broker = migrated.redis_url.rsplit("/", 1)[0] + "/6"
        made.append(create_celery(replace(migrated, redis_url=broker, **changed)))
        # An earlier test may have announced messages that no worker has taken.
        made[-1].resources.redis.delete(deliveries._ANNOUNCED_KEY)
        # Other tests have sent to the same addresses.
        for key in made[-1].resources.redis.scan_iter("migration:emails:*"):
            made[-1].resources.redis.delete(key)
        return made[-1]

    yield make
    for celery in made:
        if sender := deliveries._SENDERS.pop(celery, None):
            sender.finish(5)
        close_celery(celery)
    before.set_current()


@pytest.fixture
def celery(make_celery: Callable[..., MigrationCelery], controller: Controller) -> MigrationCelery:
    """A worker's application that sends through the mail server."""
    return make_celery(smtp_url=f"smtp://127.0.0.1:{controller.port}", email_from=SENDER)
