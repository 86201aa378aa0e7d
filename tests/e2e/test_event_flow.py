"""A worker sends an event for every step of every task, in few messages."""

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

TASKS = 40
STEPS = {"task-received", "task-started", "task-succeeded"}


@pytest.fixture
def celery(scene: Scene) -> Iterator[MigrationCelery]:
    """The application of the service, which does nothing but its periodic tasks."""
    celery = create_celery(Settings.from_env({"MIGRATION_SERVICE_HOME": str(scene.home)}))
    yield celery
    celery.close()


class Heard:
    """The events that have been heard, by type, and the messages that had several."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self.gathered = 0

    def count(self, body: Any, _message: object) -> None:
        """Count the events of a message. Workers send lists, publishers single events."""
        self.gathered += isinstance(body, list)
        self.told.update(event["type"] for event in (body if isinstance(body, list) else [body]))


@contextmanager
def hearing(celery: MigrationCelery) -> Iterator[tuple[Heard, Callable[[Callable[[], object]], None]]]:
    """Hear events. Yield those, and a function that hears until a condition is true.

    The events of earlier tasks, of which workers gather some, have been heard before.
    """
    heard = Heard()
    with celery.connection_for_read() as connection:
        queue = celery.events.Receiver(connection).queue
        with connection.Consumer(queue, callbacks=[heard.count], no_ack=True, accept=["json"]):
            _hear(connection, lambda: heard.told["worker-heartbeat"] > 8)
            heard.told.clear()
            yield heard, lambda enough: _hear(connection, enough)


def test_the_periodic_tasks_of_an_idle_service_send_no_events(scene: Scene, celery: MigrationCelery) -> None:
    slots = Slots(scene.redis)
    with hearing(celery) as (heard, hear):
        begun = time.monotonic()
        hear(lambda: (slots.seconds_since_reconcile() or begun) < time.monotonic() - begun)
        # The events of the sweep would arrive before those of the tasks that are published now.
        beats = heard.told["worker-heartbeat"]
        celery.send_task(CREATE_SET)
        hear(lambda: heard.told["task-succeeded"] and heard.told["worker-heartbeat"] > beats + 2)
    steps = STEPS | {"task-sent"}
    assert {step: heard.told[step] for step in steps} == dict.fromkeys(steps, 1)


def test_every_step_of_every_task_is_reported_with_many_steps_in_one_message(celery: MigrationCelery) -> None:
    with hearing(celery) as (heard, hear):
        gathered = heard.gathered
        for _ in range(TASKS):
            celery.send_task(CREATE_SET)
        hear(lambda: all(heard.told[step] >= TASKS for step in STEPS))
    assert {step: heard.told[step] for step in STEPS} == dict.fromkeys(STEPS, TASKS)
    assert heard.gathered - gathered < TASKS


def _hear(connection: Connection, enough: Callable[[], object]) -> None:
    def listen() -> bool:
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.2)
        return bool(enough())

    wait_until(listen, "the events are heard")
