"""A worker sends an event for every step of a task, but not of the periodic ones."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from kombu import Connection

from drill.scene import Scene
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.services.processing.slots import Slots
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.names import CREATE_SET
from support.servers import wait_until

STEPS = {"task-received", "task-started", "task-succeeded"}


@pytest.fixture
def celery(scene: Scene) -> Iterator[MigrationCelery]:
    """The application of the service, which does nothing but its periodic tasks."""
    celery = create_celery(Settings.from_env({"MIGRATION_SERVICE_HOME": str(scene.home)}))
    yield celery
    celery.close()


@contextmanager
def hearing(
    celery: MigrationCelery,
) -> Iterator[tuple[Counter[str], Callable[[Callable[[], object]], None]]]:
    """Hear events. Yield their numbers by type, and a function that hears until a condition is true.

    The events of earlier tasks have been heard before.
    """
    heard: Counter[str] = Counter()

    def count(body: Any, _message: object) -> None:
        # Workers send lists, publishers single events.
        heard.update(event["type"] for event in (body if isinstance(body, list) else [body]))

    with celery.connection_for_read() as connection:
        queue = celery.events.Receiver(connection).queue
        with connection.Consumer(queue, callbacks=[count], no_ack=True, accept=["json"]):
            _hear(connection, lambda: heard["worker-heartbeat"] > 8)
            heard.clear()
            yield heard, lambda enough: _hear(connection, enough)


def test_the_periodic_tasks_of_an_idle_service_send_no_events(scene: Scene, celery: MigrationCelery) -> None:
    slots = Slots(scene.redis)
    with hearing(celery) as (heard, hear):
        begun = time.monotonic()
        hear(lambda: (slots.seconds_since_reconcile() or begun) < time.monotonic() - begun)
        # The events of the sweep would arrive before those of the tasks that are published now.
        beats = heard["worker-heartbeat"]
        celery.send_task(CREATE_SET)
        hear(lambda: heard["task-succeeded"] and heard["worker-heartbeat"] > beats + 2)
    steps = STEPS | {"task-sent"}
    assert {step: heard[step] for step in steps} == dict.fromkeys(steps, 1)


def _hear(connection: Connection, enough: Callable[[], object]) -> None:
    def listen() -> bool:
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.2)
        return bool(enough())

    wait_until(listen, "the events are heard")
