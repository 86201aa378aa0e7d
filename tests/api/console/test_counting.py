"""Numbers that are not counted for each page: those of large tables, and those of each day."""

from collections.abc import Iterator

import pytest
from redis import Redis, RedisError

from migration_service.blueprints.console import counting
from migration_service.blueprints.console.pages import suppliers
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.console_client import ConsoleClient


@pytest.fixture
def redis(worker_resources: WorkerResources) -> Iterator[Redis]:
    """Redis without counts, before the test and after it."""
    redis = worker_resources.redis
    _forget(redis)
    yield redis
    _forget(redis)


def _forget(redis: Redis) -> None:
    for key in ("migration:metrics:counts", *redis.scan_iter("migration:console:*")):
        redis.delete(key)


def _created(client: ConsoleClient, batches: BatchClient) -> str:
    page = client.see(f"/suppliers/{batches.supplier.code}/")
    return page[page.index('<title id="days-title">') :].split("</title>")[0].split(">")[-1]


@pytest.mark.parametrize("failing", [("set",), ("get", "set")], ids=["full", "unavailable"])
def test_without_redis_everything_is_counted(
    administrator: ConsoleClient,
    batches: BatchClient,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
    failing: tuple[str, ...],
) -> None:
    monkeypatch.setattr(counting, "MANY", -2.0)
    batches.run(batches.supplier.accounts(1))

    def fail(*_arguments: object, **_more: object) -> None:
        raise RedisError

    for command in failing:
        monkeypatch.setattr(Redis, command, fail)
    assert _created(administrator, batches) == "1 accounts in 30 days, at most 1 on one"
    assert administrator.lead(f"/suppliers/{batches.supplier.code}/").startswith("1 of 1 ")


@pytest.mark.parametrize("path", ["", "reconciliation/"])
def test_a_large_installation_counts_a_book_again_after_an_act(
    administrator: ConsoleClient,
    batches: BatchClient,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    monkeypatch.setattr(counting, "MANY", -2.0)
    monkeypatch.setattr(suppliers, "LARGE", 0)  # a small book is compared, and counted, for each page
    page, counted = f"/suppliers/{batches.supplier.code}/{path}", "Accounts were counted"
    batches.run(batches.supplier.accounts(1))
    assert counted not in administrator.see(page)
    lead = administrator.lead(page)
    batches.run(batches.supplier.accounts(3))
    assert counted in administrator.see(page)
    assert administrator.lead(page) == lead
    administrator.act(f"/suppliers/{batches.supplier.code}/status/", {"status": "Paused"})
    assert administrator.lead(page) != lead
