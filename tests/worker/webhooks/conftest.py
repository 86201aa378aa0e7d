"""An organisation with events, and a sender as a worker has it."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.destinations.http import HttpDestination
from migration_service.models import WebhookDelivery, WebhookEndpoint
from migration_service.outgoing.guarded import GuardedClient, RequestLimits
from migration_service.outgoing.rules import AddressRules
from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.webhooks.endpoints import change_endpoint, create_endpoint, get_endpoint
from migration_service.services.webhooks.secrets import Seal
from migration_service.services.webhooks.sender import Sender
from migration_service.states import EndpointKind
from support.factories import Customer
from support.receivers import Receiver, receiving
from support.servers import wait_until

RULES = AddressRules.from_texts("127.0.0.0/8", allows_http=True)


class Hooks:
    """The webhooks of an organisation."""

    def __init__(self, sessions: sessionmaker[Session], customer: Customer) -> None:
        self.sessions = sessions
        self.customer = customer
        self.seal = Seal([Fernet.generate_key().decode()])
        self.client = GuardedClient(RULES, RequestLimits(connect_seconds=2, answer_seconds=30))
        self.sender = self.new_sender()

    def new_sender(self) -> Sender:
        return Sender(self.sessions, {EndpointKind.URL: HttpDestination(self.client)}, self.seal)

    def add(self, url: str, **values: Any) -> tuple[UUID, str]:
        """Create an endpoint. Return its id and secret."""
        with self.sessions.begin() as session:
            endpoint, secret = create_endpoint(
                session, self.customer.organisation_id, RULES, self.seal, {"url": url, **values}
            )
            return endpoint.id, secret

    def change(self, endpoint_id: UUID, **values: Any) -> None:
        with self.sessions.begin() as session:
            endpoint = get_endpoint(session, endpoint_id, organisation_id=None)
            change_endpoint(session, endpoint, RULES, self.seal, values)

    def get(self, endpoint_id: UUID) -> WebhookEndpoint:
        with self.sessions.begin() as session:
            return get_endpoint(session, endpoint_id, organisation_id=None)

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
      AND (lane = 'REPLAY' OR disabled_at IS NULL) AND coalesce(held_until, now()) <= now()
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
