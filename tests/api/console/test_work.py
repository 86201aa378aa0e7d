"""The page of work in progress: the messages that wait, and the workers that answer."""

import re
from dataclasses import replace

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages.work import ASKED
from migration_service.config import Settings
from migration_service.services.access.operators import OperatorRole
from migration_service.tasks.names import QUEUES
from migration_service.tasks.resources import WorkerResources
from support.console_client import ConsoleClient, make_operator
from support.factories import MakeClient


@pytest.fixture(autouse=True)
def asked(worker_resources: WorkerResources) -> None:
    """The workers have just been asked, so that no page asks again."""
    worker_resources.redis.set(ASKED, b"a moment ago")


def test_the_page_says_how_many_messages_wait_and_how_many_workers_have(
    administrator: ConsoleClient, worker_resources: WorkerResources
) -> None:
    redis = worker_resources.redis
    redis.rpush("migration:batch", *range(3))
    redis.rpush("migration:vendors", 0)
    redis.hset("migration:unacked", mapping={"one": 1, "two": 2})
    page = administrator.see("/work/")
    waiting = re.findall(r"<tr><td[^>]*><code>(\w+)</code></td><td[^>]*>(.*?)</td>", page)
    assert dict(waiting) == dict.fromkeys(QUEUES, "0") | {"batch": "3", "vendors": "1"}
    assert re.findall(r"<dt>messages that workers have</dt><dd>(.*?)</dd>", page) == ["2"]


def test_workers_are_not_asked_again_after_a_moment(
    administrator: ConsoleClient, worker_resources: WorkerResources
) -> None:
    assert "The workers are being asked" in administrator.see("/work/")
    assert worker_resources.redis.get(ASKED) == b"a moment ago"


def test_without_redis_the_page_says_so_and_shows_the_rest(
    migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> None:
    settings = replace(migrated, console=True, redis_url="redis://127.0.0.1:1/0")
    client = ConsoleClient(make_client(settings).application)
    client.log_in(make_operator(sessions, OperatorRole.READ))
    assert client.lead("/work/") == "Redis does not answer: nothing is processed."
    assert "<dt>attempts in progress</dt><dd>0</dd>" in client.see("/work/")
    assert not re.findall(r"<code>\w+</code></td><td[^>]*>\d+</td>", client.see("/work/"))
