"""Events in a queue of RabbitMQ."""

from collections.abc import Iterator
from typing import Any

import pytest
from standardwebhooks import Webhook

from migration_service.destinations.protocol import Message
from migration_service.destinations.rabbitmq import RabbitDestination
from migration_service.outgoing.rules import AddressRules
from migration_service.services.webhooks.sender import Sender
from migration_service.states import DeliveryFailure, EndpointKind
from migration_service_local.servers.ports import random_free_port
from support.rabbit import PASSWORD, USER, needs_rabbitmq, open_rabbitmq, running_rabbitmq
from worker.webhooks.conftest import RULES, Hooks

pytestmark = needs_rabbitmq


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with running_rabbitmq(random_free_port(), random_free_port()) as place:
        yield place


@pytest.fixture
def destination() -> Iterator[RabbitDestination]:
    destination = RabbitDestination(RULES, lambda: "")
    yield destination
    destination.close()


def _received(place: str, queue: str) -> list[Any]:
    connection = open_rabbitmq(place)
    channel = connection.channel()
    found = []
    while message := channel.basic_get(queue, no_ack=True):
        found.append(message)
    connection.close()
    return found


def _declare(place: str, queue: str) -> None:
    connection = open_rabbitmq(place)
    connection.channel().queue_declare(queue, durable=True, auto_delete=False)
    connection.close()


def test_events_are_in_the_queue_signed_and_once(
    hooks: Hooks, place: str, destination: RabbitDestination
) -> None:
    _declare(place, "events")
    url = f"amqp://{place}/?queue=events"
    endpoint_id, secret = hooks.add(url, credentials=f"{USER}:{PASSWORD}")
    assert hooks.get(endpoint_id).kind == EndpointKind.QUEUE
    assert PASSWORD not in str(hooks.get(endpoint_id).credentials)
    hooks.tell(20)
    sender = Sender(hooks.sessions, {EndpointKind.QUEUE: destination}, hooks.seal)
    hooks.send(sender=sender, until=lambda: hooks.states() == ["DELIVERED"] * 20)
    sender.finish(5)
    found = _received(place, "events")
    events = [Webhook(secret).verify(it.body, it.headers) for it in found]
    assert {it["id"] for it in events} == {str(it.event_id) for it in hooks.deliveries()}
    assert len(events) == 20
    assert {it.properties["content_type"] for it in found} == {"application/json"}
    assert {it.properties["delivery_mode"] for it in found} == {2}


@pytest.mark.parametrize(
    ("path", "credentials", "failure"),
    [
        ("/?queue=none", f"{USER}:{PASSWORD}", DeliveryFailure.QUEUE_UNKNOWN),
        ("/?queue=events", f"{USER}:wrong", DeliveryFailure.REFUSED),
        ("/?queue=events", None, DeliveryFailure.REFUSED),
    ],
)
def test_how_sending_fails(
    place: str, destination: RabbitDestination, path: str, credentials: str | None, failure: DeliveryFailure
) -> None:
    headers = {"webhook-id": "1", "Content-Type": "application/json"}
    for _ in range(2):
        outcome = destination.send(Message(f"amqp://{place}{path}", headers, b"{}", credentials))
        assert outcome.failure is failure


def test_a_lost_connection_is_opened_again(place: str, destination: RabbitDestination) -> None:
    _declare(place, "events")
    url, headers = f"amqp://{place}/?queue=events", {"webhook-id": "1", "Content-Type": "application/json"}
    message = Message(url, headers, b"{}", f"{USER}:{PASSWORD}")
    assert destination.send(message).failure is None
    (links,) = destination._idle.values()
    link = links.get()
    link._connection.transport.sock.close()
    links.put(link)
    assert destination.send(message).failure is None
    assert len(_received(place, "events")) == 2


def test_only_allowed_addresses_are_connected_to(place: str) -> None:
    public = RabbitDestination(AddressRules(allows_http=True), lambda: "")
    outcome = public.send(Message(f"amqp://{place}/?queue=events", {}, b"{}"))
    assert outcome.failure is DeliveryFailure.ADDRESS_NOT_ALLOWED
    closed = RabbitDestination(RULES, lambda: "")
    port = random_free_port()
    outcome = closed.send(Message(f"amqp://127.0.0.1:{port}/?queue=events", {}, b"{}"))
    assert outcome.failure is DeliveryFailure.CONNECTION
