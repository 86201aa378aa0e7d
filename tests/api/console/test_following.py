"""Pages that take longer begin, and end when their browser has gone; numbers that no page counts anew."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from redis import Redis, RedisError
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console import counting, lists
from migration_service.blueprints.console.pages import audit, downloads, suppliers
from migration_service.blueprints.requests import places
from migration_service.services.audit import trail
from migration_service.services.reconciliation import submitted
from migration_service.services.undo import starting
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of
from support.servers import wait_until
from support.slow_statements import count_slow, slow_down

Slow = Callable[[object, str], None]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Let the long statements of a module be this one."""
    monkeypatch.setattr(places, "PATIENCE", 0.0)
    monkeypatch.setattr(places, "_BETWEEN_PIECES", 0.2)
    return partial(slow_down, monkeypatch)


def test_a_page_and_a_file_that_nobody_waits_for_end(
    slow: Slow, administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    batch_id = batches.run([{}])["batch_id"]
    for module, path, kind in (
        (submitted, f"/suppliers/{batches.supplier.code}/", "text/html"),
        (lists, f"/suppliers/{batches.supplier.code}/open/list.csv", "text/csv"),
        (downloads, f"/batches/{batch_id}/hand-back.zip", "application/zip"),
        (trail, "/audit/export.csv", "text/csv"),
    ):
        slow(module, "SELECT pg_sleep(3600)")
        answer = administrator.client.get(f"/console{path}", buffered=False)
        assert answer.status_code == 200
        assert answer.mimetype == kind
        answer.close()
        wait_until(lambda: count_slow(sessions) == 0, "it is cancelled")


def test_a_file_is_sent_as_one_however_long_its_view_takes(
    monkeypatch: pytest.MonkeyPatch, slow: Slow, administrator: ConsoleClient
) -> None:
    def record(session: Session, *_: object, **_details: object) -> None:
        session.execute(text("SELECT pg_sleep(0.5)"))

    monkeypatch.setattr(audit, "record", record)
    answer = administrator.client.get("/console/audit/export.csv")
    assert answer.mimetype == "text/csv"
    assert "audit.csv" in answer.headers["Content-Disposition"]


def test_who_waits_gets_the_page_or_what_is_wrong(
    slow: Slow, administrator: ConsoleClient, batches: BatchClient
) -> None:
    path, code = f"/suppliers/{batches.supplier.code}/", batches.supplier.code
    slow(submitted, "SELECT pg_sleep(0.5)")
    shown = administrator.client.get(f"/console{path}")
    assert shown.text.startswith(" ")
    assert f'<h1 class="h3">{code}' in shown.text or code in text_of(shown.text)
    slow(submitted, "SELECT pg_sleep(0.5), 1 / (SELECT 0 FROM pg_sleep(0.5))")
    failed = administrator.client.get(f"/console{path}")
    assert failed.status_code == 200
    assert "That did not work" in text_of(failed.text)


def test_a_form_that_takes_longer_is_sent_once_and_says_what_was_done(
    slow: Slow, administrator: ConsoleClient, batches: BatchClient
) -> None:
    batch_id = batches.start(batches.supplier.accounts(1), "import")
    batches.work()
    slow(starting, "SELECT pg_sleep(1)")
    answer = administrator.send(f"/batches/{batch_id}/undo/", {"reason": "A test."})
    assert answer.status_code == 200, answer.text
    said = text_of(answer.text)
    assert "The undo has started." in said
    assert "Continue" in said
    found: Any = batches.supplier.get("/undos/").json
    (undo,) = found
    assert f"/console/undos/{undo['undo_id']}/" in answer.text


@pytest.fixture
def redis(worker_resources: WorkerResources, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    """Redis of a large installation, without counts before the test and after it."""
    monkeypatch.setattr(counting, "MANY", -2.0)
    monkeypatch.setattr(counting, "PATIENCE", 60.0)
    redis = worker_resources.redis
    _forget(redis)
    yield redis
    _forget(redis)


def _forget(redis: Redis) -> None:
    for key in ("migration:metrics:counts", *redis.scan_iter("migration:console:*")):
        redis.delete(key)


@pytest.mark.parametrize("failing", [("set",), ("get", "set")], ids=["full", "unavailable"])
def test_without_redis_everything_is_counted(
    administrator: ConsoleClient,
    batches: BatchClient,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
    failing: tuple[str, ...],
) -> None:
    batches.run(batches.supplier.accounts(1))

    def fail(*_arguments: object, **_more: object) -> None:
        raise RedisError

    for command in failing:
        monkeypatch.setattr(Redis, command, fail)
    page = administrator.see(f"/suppliers/{batches.supplier.code}/")
    assert '<title id="days-title">Accounts in 30 days: 1, at most 1 on one</title>' in page
    assert administrator.lead(f"/suppliers/{batches.supplier.code}/").startswith("1 of 1 ")


@pytest.mark.parametrize("path", ["", "reconciliation/", "sign-off/"])
def test_a_large_installation_counts_a_book_again_after_an_act(
    administrator: ConsoleClient,
    batches: BatchClient,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
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


@pytest.mark.parametrize("path", ["ready/", "go-live/"])
def test_a_large_installation_says_of_when_it_has_counted(
    administrator: ConsoleClient,
    batches: BatchClient,
    redis: Redis,
    path: str,
) -> None:
    page, counted = f"/suppliers/{batches.supplier.code}/{path}", "Accounts were counted"
    batches.run(batches.supplier.accounts(1))
    assert [counted in administrator.see(page) for _ in range(2)] == [False, True]
    administrator.act(f"/suppliers/{batches.supplier.code}/status/", {"status": "Paused"})
    assert counted not in administrator.see(page)


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/suppliers/{code}/sign-off/", "/suppliers/{code}/ready/", "/suppliers/{code}/go-live/"),
        *("/suppliers/{code}/report.html", "/batches/{batch}/undo/"),
    ],
)
def test_a_large_installation_counts_beside_the_page_which_says_so_and_comes_by_itself(
    administrator: ConsoleClient,
    batches: BatchClient,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    monkeypatch.setattr(counting, "PATIENCE", 0.0)
    batch_id = batches.run(batches.supplier.accounts(1), "import")["batch_id"]
    where = path.format(code=batches.supplier.code, batch=batch_id)
    with batches.supplier.Session.begin() as session:
        # Whoever reads all accounts has to wait for this one, which waits for what is counted already.
        session.execute(text("SET LOCAL lock_timeout = '100s'"))
        session.execute(text("LOCK TABLE account_import_process IN ACCESS EXCLUSIVE MODE"))
        answer = administrator.get(where)
        assert "There are many accounts, so this takes some seconds." in text_of(answer.text)
    for _ in range(200):
        if "Refresh" not in answer.headers:
            break
        time.sleep(0.05)
        answer = administrator.get(answer.headers["Refresh"].partition("url=/console")[2])
    assert answer.status_code == 200
    assert "There are many accounts" not in answer.text
    assert "Refresh" not in administrator.get(where).headers
