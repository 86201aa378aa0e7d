"""A worker sends an event for every step of every task, in few messages."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kombu import Connection

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.slots import Slots
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.names import CREATE_ACCOUNT
from migration_service_local.servers.process import Child, Program, stop_children
from migration_service_local.up.options import Scale
from migration_service_local.up.programs import Programs
from servers import EmbeddedServers, wait_until

TASKS = 40
STEPS = {"task-received", "task-started", "task-succeeded"}


@pytest.fixture
def servers(prepared_servers: Path) -> Iterator[EmbeddedServers]:
    """Servers with the service's tables."""
    with EmbeddedServers.copy_of(prepared_servers) as servers:
        values = {
            "DATABASE_URL": servers.database_url,
            "REDIS_URL": servers.redis_url,
            "MIGRATION_SERVICE_SECRET_KEY": servers.home.secret("secret_key"),
        }
        servers.home.write("settings.json", values)
        servers.upgrade()
        yield servers


@contextmanager
def running(servers: EmbeddedServers, *programs: Program) -> Iterator[MigrationCelery]:
    """The application of the processes that run these programs."""
    with (servers.folder / "worker.log").open("ab") as log:
        children = [Child(program, log) for program in programs]
    celery = create_celery(
        Settings(
            home=servers.home.path,
            database_url=servers.database_url,
            redis_url=servers.redis_url,
            secret_key=servers.home.secret("secret_key"),
        )
    )
    try:
        yield celery
    finally:
        celery.close()
        stop_children(children)


@pytest.fixture
def celery(servers: EmbeddedServers) -> Iterator[MigrationCelery]:
    """The application of a worker that creates accounts."""
    with running(servers, Programs(servers.home, Scale(interactive_workers=1)).workers()[0]) as celery:
        yield celery


def test_the_periodic_tasks_of_an_idle_service_send_no_events(servers: EmbeddedServers) -> None:
    told: Counter[str] = Counter()
    programs = Programs(servers.home, Scale(interactive_workers=1, batch_workers=1))

    def count(body: Any, _message: object) -> None:
        told.update(event["type"] for event in (body if isinstance(body, list) else [body]))

    with running(servers, *programs.workers(), programs.beat()) as celery:
        redis = make_redis(servers.redis_url)
        with celery.connection_for_read() as connection:
            queue = celery.events.Receiver(connection).queue
            with connection.Consumer(queue, callbacks=[count], no_ack=True, accept=["json"]):
                _hear(connection, lambda: Slots(redis).seconds_since_reconcile() is not None)
                beats = told["worker-heartbeat"]
                # The events of the sweep would arrive before those of the tasks that are published now.
                celery.send_task(CREATE_ACCOUNT, args=[str(uuid4())])
                _hear(connection, lambda: told["task-succeeded"] and told["worker-heartbeat"] > beats + 2)
        redis.close()
    steps = STEPS | {"task-sent"}
    assert {step: told[step] for step in steps} == dict.fromkeys(steps, 1)


def test_every_step_of_every_task_is_reported_with_many_steps_in_one_message(celery: MigrationCelery) -> None:
    told: Counter[str] = Counter()
    messages: Counter[str] = Counter()

    def count(body: Any, _message: object) -> None:
        events = body if isinstance(body, list) else [body]
        messages["by the worker" if isinstance(body, list) else "single"] += 1
        told.update(event["type"] for event in events)

    with celery.connection_for_read() as connection:
        queue = celery.events.Receiver(connection).queue
        with connection.Consumer(queue, callbacks=[count], no_ack=True, accept=["json"]):
            _hear(connection, lambda: told["worker-heartbeat"])
            for _ in range(TASKS):
                celery.send_task(CREATE_ACCOUNT, args=[str(uuid4())])
            _hear(connection, lambda: all(told[step] >= TASKS for step in STEPS))
    assert {step: told[step] for step in STEPS} == dict.fromkeys(STEPS, TASKS)
    assert messages["by the worker"] < TASKS, messages


def _hear(connection: Connection, enough: Callable[[], object]) -> None:
    def listen() -> bool:
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.2)
        return bool(enough())

    wait_until(listen, "the events are heard")
