"""What needs somebody, however old it is, and what is in progress: what waits in queues."""

import re
from dataclasses import replace
from html import unescape

import pytest
from redis import RedisError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import overview
from migration_service.config import Settings
from migration_service.services.access.operators import OperatorRole
from migration_service.services.processing.slots import Slots
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service.tasks.names import QUEUES
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, make_operator
from support.factories import MakeClient

#: Seconds without a sweep after which it counts as missing here. A busy machine may stop for half a minute.
NO_SWEEP = 300

_CONCERN = re.compile(r'<li class="(urgent)?">.*?<a href="/console(.*?)">(.*?)</a>')


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_NO_SWEEP", NO_SWEEP)


def _concerns(client: ConsoleClient) -> list[tuple[bool, str, str]]:
    """What needs somebody: whether it is urgent, where it leads, and what it is."""
    found = _CONCERN.findall(client.see("/"))
    return [(bool(urgent), page, unescape(sentence)) for urgent, page, sentence in found]


def test_an_old_batch_that_is_paused_is_named_among_newer_ones(
    administrator: ConsoleClient, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "NEWEST", 2)
    accounts = batches.supplier.accounts(4)
    old = batches.start(accounts[:1])
    administrator.send(f"/batches/{old}/pause/")
    for account in accounts[1:]:
        batches.run([account])
    page = administrator.see("/")
    assert "1 thing needs you. 1 batch is open." in page
    assert re.search(r"Batch Accounts, \d+ \w+ \d{4} \d\d:\d\d is PAUSED, with 1 line left.", page)


def test_parts_that_do_not_work_need_somebody(
    administrator: ConsoleClient, worker_resources: WorkerResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis, slots, state = worker_resources.redis, Slots(worker_resources.redis), "migration:slots:state"
    slots.reconcile([])
    assert _concerns(administrator) == []
    missing = "No sweep has run for a while: beat or the maintenance worker is missing."
    redis.hincrby(state, "reconciled_at", -(NO_SWEEP + 1) * 1_000)
    assert _concerns(administrator) == [(True, "/work/", missing)]
    redis.hdel(state, "reconciled_at")
    assert _concerns(administrator) == [(True, "/work/", missing)]
    slots.reconcile([])
    redis.hset(state, "ready", "1")  # without the pause after a loss
    _set_limit(worker_resources, 2)
    full = "All 2 slots are in use: further requests get a 429."
    for attempt, expected in (("first", []), ("second", [(False, "/work/", full)])):
        slots.acquire([attempt], owner=1, limit=2)
        assert _concerns(administrator) == expected
    _set_limit(worker_resources, None)
    assert _concerns(administrator) == []
    slots.release(["first", "second"])

    def fail(_slots: Slots) -> int:
        raise RedisError

    monkeypatch.setattr(Slots, "in_use", fail)
    assert _concerns(administrator) == [(True, "/work/", "Redis does not answer: nothing is processed.")]


def _set_limit(resources: WorkerResources, limit: int | None) -> None:
    with resources.Session.begin() as session:
        set_concurrency_limit(session, limit)


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


def test_without_redis_the_page_says_so_and_shows_the_rest(
    migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> None:
    settings = replace(migrated, console=True, redis_url="redis://127.0.0.1:1/0")
    client = ConsoleClient(make_client(settings).application)
    client.log_in(make_operator(sessions, OperatorRole.READ))
    assert client.lead("/work/") == "Redis does not answer: nothing is processed."
    assert "<dt>attempts in progress</dt><dd>0</dd>" in client.see("/work/")
    assert not re.findall(r"<code>\w+</code></td><td[^>]*>\d+</td>", client.see("/work/"))
