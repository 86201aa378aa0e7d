"""The page of work in progress: the messages that wait, and the workers that answer."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console import workers
from migration_service.config import Settings
from migration_service.services.access.operators import OperatorRole
from migration_service.tasks.names import QUEUES
from migration_service.tasks.resources import WorkerResources
from support.console_client import ConsoleClient, make_operator
from support.factories import MakeClient

#: For each queue, and then of those that workers have.
Messages = list[int | None]


@pytest.fixture(autouse=True)
def asked(worker_resources: WorkerResources) -> None:
    """The workers have just been asked, so that no page asks again."""
    worker_resources.redis.set(workers.ASKED, b"a moment ago")


@pytest.fixture
def read_messages(
    migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> Callable[[str], Messages]:
    """Reads the messages on the page of a service with this broker."""

    def read(broker: str) -> Messages:
        client = ConsoleClient(make_client(replace(migrated, console=True, broker_url=broker)).application)
        client.log_in(make_operator(sessions, OperatorRole.READ))
        page = client.see("/work/")
        counts = re.findall(r"<tr><td[^>]*><code>\w+</code></td><td[^>]*>(.*?)</td>", page)
        counts += re.findall(r"<dt>messages that workers have</dt><dd>(.*?)</dd>", page)
        return [int(it) if it.isdigit() else None for it in counts]

    return read


@pytest.fixture
def own_broker(migrated: Settings) -> Iterator[str]:
    """The address of a broker that is not the Redis of the service. Four messages wait there."""
    address = f"{migrated.redis_url.rpartition('/')[0]}/1"
    with Redis.from_url(address) as broker:
        broker.flushdb()  # a test that was killed has left its messages
        broker.rpush("migration:batch", *range(3))
        broker.rpush("migration:vendors", 0)
        broker.hset("migration:unacked", mapping={"one": 1, "two": 2})
        yield address
        broker.flushdb()


def test_messages_are_those_of_a_broker_of_its_own(
    read_messages: Callable[[str], Messages], own_broker: str
) -> None:
    assert read_messages(own_broker) == [0, 3, 1, 0, 0, 2]
    assert read_messages("") == [0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("broker", ["redis://127.0.0.1:1/0", "amqp://127.0.0.1:1//"])
def test_of_a_broker_that_does_not_answer_or_is_no_redis_nobody_says_how_many_wait(
    read_messages: Callable[[str], Messages], broker: str
) -> None:
    assert read_messages(broker) == [None] * len(QUEUES)


def test_workers_are_not_asked_again_after_a_moment(
    administrator: ConsoleClient, worker_resources: WorkerResources
) -> None:
    assert "The workers are being asked" in administrator.see("/work/")
    assert worker_resources.redis.get(workers.ASKED) == b"a moment ago"


def test_without_redis_the_page_says_so_and_shows_the_rest(
    migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> None:
    settings = replace(migrated, console=True, redis_url="redis://127.0.0.1:1/0")
    client = ConsoleClient(make_client(settings).application)
    client.log_in(make_operator(sessions, OperatorRole.READ))
    assert client.lead("/work/") == "Redis does not answer: nothing is processed."
    assert "<dt>attempts in progress</dt><dd>0</dd>" in client.see("/work/")
