"""The events of a worker's tasks are sent to Flower together (`tasks/event_flow.py`)."""

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.tasks.accounts import publish_set
from migration_service.tasks.event_flow import GatheredEvents
from migration_service.tasks.names import RUN_CHUNK
from migration_service.tasks.publishing import publish


class Dispatcher:
    """Celery's dispatcher of events, as far as the step uses it."""

    def __init__(self, on_send_buffered: Callable[[], None] | None) -> None:
        self.on_send_buffered = on_send_buffered
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


class Consumer:
    """A consumer whose timer is run by hand."""

    def __init__(self, dispatcher: Dispatcher | None) -> None:
        self.event_dispatcher = dispatcher
        self.timer = self
        self.due: list[Callable[[], None]] = []

    def call_after(self, _seconds: float, call: Callable[[], None]) -> None:
        self.due.append(call)

    def pass_time(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()


def start(consumer: Any) -> None:
    GatheredEvents(consumer).start(consumer)


def send_event(consumer: Consumer) -> None:
    assert consumer.event_dispatcher is not None
    assert consumer.event_dispatcher.on_send_buffered is not None
    consumer.event_dispatcher.on_send_buffered()


def test_events_within_a_moment_are_sent_together_and_later_ones_after_them() -> None:
    dispatcher = Dispatcher(lambda: None)
    consumer = Consumer(dispatcher)
    start(consumer)
    for sent in (1, 2):
        for _ in range(3):
            send_event(consumer)
        assert len(consumer.due) == 1
        assert dispatcher.flushed == sent - 1
        consumer.pass_time()
        assert dispatcher.flushed == sent


def test_events_of_a_connection_that_was_lost_are_not_sent_on_it() -> None:
    lost = Dispatcher(lambda: None)
    consumer = Consumer(lost)
    start(consumer)
    send_event(consumer)
    consumer.event_dispatcher = Dispatcher(lambda: None)
    consumer.pass_time()
    assert lost.flushed == 0


@pytest.mark.parametrize("dispatcher", [None, Dispatcher(None)])
def test_a_worker_that_sends_no_events_or_does_not_gather_them_is_left_alone(
    dispatcher: Dispatcher | None,
) -> None:
    start(Consumer(dispatcher))
    assert dispatcher is None or dispatcher.on_send_buffered is None


def test_flower_is_told_of_a_chunk_when_it_is_sent_and_of_a_set_when_it_is_received(
    migrated: Settings,
) -> None:
    """An announcement is in the way of a waiting client, and says nothing of any account."""
    celery, redis = create_celery(migrated), make_redis(migrated.redis_url)
    with redis.pubsub() as events:  # type: ignore[no-untyped-call]
        events.psubscribe("*celeryev*")
        assert events.get_message(timeout=5)  # it listens
        assert publish_set(celery)
        assert publish(celery, RUN_CHUNK, str(uuid4()), 1)
        first = events.get_message(timeout=5)
    told = json.loads(b64decode(json.loads(first["data"])["body"]))
    assert (told["type"], told["name"]) == ("task-sent", RUN_CHUNK)
    assert redis.llen("migration:interactive") == 1
    redis.close()
    celery.close()
