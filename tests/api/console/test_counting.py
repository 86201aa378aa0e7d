"""Numbers that are not counted for each page: those of large tables, and those of each day."""

import time
from collections.abc import Iterator

import pytest
from redis import Redis, RedisError

from migration_service.blueprints.console import counting
from migration_service.metrics.shared import keep_counts
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of


@pytest.fixture
def redis(worker_resources: WorkerResources) -> Iterator[Redis]:
    """Redis without counts, before the test and after it."""
    redis = worker_resources.redis
    _forget(redis)
    yield redis
    _forget(redis)


def _forget(redis: Redis) -> None:
    for key in ("migration:metrics:counts", *redis.scan_iter("migration:console:created:*")):
        redis.delete(key)


def _keep(redis: Redis, code: str, number: int, *, age: float) -> None:
    """Keep what workers have counted, with a supplier that is gone meanwhile."""
    rows = [["GONE", "PENDING", 3], [code, "IMPORTED", number]]
    keep_counts(redis, {"accounts": rows, "counted_at": time.time() - age}, rest_seconds=0)


def test_many_accounts_are_shown_as_the_workers_counted_them_if_that_was_not_long_ago(
    administrator: ConsoleClient, batches: BatchClient, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches.run(batches.supplier.accounts(1), "stage")
    code = batches.supplier.code
    page = f"/suppliers/{code}/"
    own = "0 of 1 staged accounts are created (0%)."
    _keep(redis, code, 7, age=120)
    assert administrator.lead(page) == own
    monkeypatch.setattr(counting, "_MANY", -2.0)  # PostgreSQL says -1 of a table that it never analyzed
    assert administrator.lead(page) == "7 of 7 staged accounts are created (100%)."
    for path in (page, "/"):
        assert "Accounts were counted 2 minutes ago." in text_of(administrator.see(path)).replace(" .", ".")
    _keep(redis, code, 7, age=601)
    assert administrator.lead(page) == own
    assert "Accounts were counted" not in administrator.see(page)
    redis.delete("migration:metrics:counts")
    assert administrator.lead(page) == own


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
    monkeypatch.setattr(counting, "_MANY", -2.0)
    batches.run(batches.supplier.accounts(1))

    def fail(*_arguments: object, **_more: object) -> None:
        raise RedisError

    for command in failing:
        monkeypatch.setattr(Redis, command, fail)
    assert _created(administrator, batches) == "1 accounts in 30 days, at most 1 on one"
    assert administrator.lead(f"/suppliers/{batches.supplier.code}/").startswith("1 of 1 ")
