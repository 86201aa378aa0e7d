"""Redis is away, full or another one, or the pool is exhausted: what works, and what is refused."""

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from flask import Flask
from flask.testing import FlaskClient
from redis import Redis, RedisError
from redis.exceptions import ResponseError
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.metrics import ServiceMetrics
from migration_service.blueprints.requests.resources import resources
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import Sentinels, make_redis
from migration_service.db import known_commits
from migration_service.db.base import new_id
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.signals import (
    KEPT_SECONDS,
    NOTIFICATION_KEY,
    notify,
    wait_for_notification,
)
from migration_service.tasks.names import CREATE_SET
from migration_service.tasks.publishing import publish
from migration_service.tasks.resources import WorkerResources
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.factories import MakeClient, close_celery, json_of
from support.servers import EmbeddedServers, running, wait_until
from support.supplier_client import SupplierClient

#: Nothing listens on port 1.
NO_REDIS = "redis://127.0.0.1:1/0"


def test_without_redis_accounts_are_staged_and_read_but_not_processed(
    migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> None:
    # The broker included.
    client = make_client(replace(migrated, redis_url=NO_REDIS))
    supplier = SupplierClient.create(client.application, sessions)
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    assert supplier.validate(account).status_code == 200
    assert supplier.stage(account).status_code == 201
    answer = supplier.process(number)
    assert (answer.status_code, json_of(answer)["code"]) == (503, "service_unavailable")
    assert answer.headers["Retry-After"]
    assert supplier.status(number).json == {"status": "UNKNOWN", "service_account_number": ""}


def _takes_a_write(redis: Redis) -> bool:
    with suppress(ResponseError):
        return bool(redis.set("migration:test", b"1", px=1))
    return False


@pytest.fixture
def fill(worker_resources: WorkerResources) -> Iterator[Callable[[], object]]:
    """A function that leaves Redis no memory, so that it refuses what is written."""
    redis = worker_resources.redis

    def fill() -> None:
        redis.config_set("maxmemory", 1)
        wait_until(lambda: not _takes_a_write(redis), "Redis refuses what is written")

    yield fill
    redis.config_set("maxmemory", 0)


def test_while_redis_is_full_no_account_is_processed_and_the_metrics_say_so(
    app: Flask, client: FlaskClient, supplier: SupplierClient, fill: Callable[[], object]
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    fill()
    assert supplier.stage(account).status_code == 201
    answer = supplier.process(number)
    assert (answer.status_code, json_of(answer)["code"]) == (503, "service_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
    assert supplier.status(number).json == {"status": "UNKNOWN", "service_account_number": ""}
    assert json_of(client.get("/health/ready"))["redis"] == "unavailable"
    with app.app_context():
        (up,) = (it for it in ServiceMetrics(resources()).collect() if it.name == "migration_part_up")
    assert {it.labels["part"]: it.value for it in up.samples} == {"database": 1, "redis": 0}


def test_without_a_database_every_request_is_refused_for_now(
    migrated: Settings, make_client: MakeClient, supplier: SupplierClient
) -> None:
    client = make_client(replace(migrated, database_url="postgresql://nobody@127.0.0.1:1/none"))
    headers = {"Authorization": f"Token {supplier.token}"}
    answer = client.get("/v1/data-import/import-suppliers/", headers=headers)
    assert (answer.status_code, json_of(answer)["code"]) == (503, "service_unavailable")
    assert answer.headers["Retry-After"]


def test_a_request_whose_notification_cannot_be_read_asks_the_database(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (number,) = supplier.stage_new()
    with supplier.app.app_context():
        shared = resources()
    try:
        with make_redis(NO_REDIS) as none, ThreadPoolExecutor() as pool:
            blind = replace(shared, dispatch=replace(shared.dispatch, waiting_redis=none))
            supplier.app.extensions["migration_service"] = blind
            waiting = pool.submit(supplier.process, number, prefer="")
            wait_until(lambda: supplier.is_in_progress(number), "it began")
            attempt_id = supplier.current_attempt(number)
            assert perform_attempt(worker_resources.Session, attempt_id)
            answer = waiting.result(30)
    finally:
        supplier.app.extensions["migration_service"] = shared
        worker_resources.slots.release([str(attempt_id)])
    assert answer.status_code == 201
    assert json_of(supplier.status(number)) == {"status": "COMPLETED", **json_of(answer)}


def test_a_notification_is_kept_for_a_minute_and_read_once(worker_resources: WorkerResources) -> None:
    attempt_id = new_id()
    redis = worker_resources.redis
    notify(redis, worker_resources.slots, {attempt_id: "A-7KX2M9QD"})
    assert KEPT_SECONDS - 5 < redis.ttl(NOTIFICATION_KEY.format(attempt_id)) <= KEPT_SECONDS
    assert wait_for_notification(redis, attempt_id, 0.5) == "A-7KX2M9QD"
    assert wait_for_notification(redis, attempt_id, 0.1) is None


def test_a_pool_without_a_free_connection_answers_503_everywhere(
    migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> None:
    application = make_client(replace(migrated, database_pool_size=1)).application
    supplier = SupplierClient.create(application, sessions)
    with application.app_context():
        own = resources().Session
    log_in = "mutation($key: String!) { obtainServiceToken(input: {APIKey: $key}) { token } }"
    body = {"query": log_in, "variables": {"key": supplier.api_key}}
    calls = (
        lambda: supplier.status("1"),
        lambda: supplier.stage(supplier.accounts()[0]),
        lambda: application.test_client().post("/v1/graphql/", json=body),
    )
    with own() as session, ThreadPoolExecutor() as pool:
        session.execute(text("SELECT 1"))
        status, staged, token = [it.result(60) for it in [pool.submit(call) for call in calls]]
    for answer in (status, staged):
        assert (answer.status_code, json_of(answer)["code"]) == (503, "service_unavailable")
        assert answer.headers["Retry-After"]
    (error,) = json_of(token)["errors"]
    assert error["extensions"]["errorCode"] == "service_unavailable"
    assert supplier.status("1").status_code == 404


_VALKEY_PASSWORD = "of-both-valkeys"


class Sentinel:
    """Two Valkeys, one of which replicates the other, and a Sentinel that makes it the master in its place.

    They are the program of these servers, in a folder of their own.
    """

    def __init__(self, servers: EmbeddedServers, folder: Path, stack: ExitStack) -> None:
        self._binary, self._folder, self._stack = servers.valkey.program().arguments[0], folder, stack
        self._programs: dict[int, subprocess.Popen[bytes]] = {}
        self.master, self.replica, self.port = (random_free_port() for _ in range(3))
        own = f"requirepass {_VALKEY_PASSWORD}\nmasterauth {_VALKEY_PASSWORD}\n"
        self._start(self.master, own)
        self._start(self.replica, f"{own}replicaof {LOOPBACK} {self.master}\n")
        with self._connect(self.replica) as replica:
            wait_until(lambda: replica.info("replication").get("master_link_status") == "up", "it follows")
        monitor = (
            f"sentinel monitor main {LOOPBACK} {self.master} 1\nsentinel auth-pass main {_VALKEY_PASSWORD}\n"
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n"
        )
        self._start(self.port, monitor, "--sentinel")
        with Redis(LOOPBACK, self.port) as sentinel:
            wait_until(lambda: len(sentinel.sentinel_slaves("main")) == 1, "the Sentinel knows both")

    @property
    def url(self) -> str:
        """The address of the master, whichever it is. Nobody listens at the first Sentinel."""
        return f"sentinel://:{_VALKEY_PASSWORD}@{LOOPBACK}:1/0?master_name=main;sentinel://{LOOPBACK}:{self.port}"

    def lose_master(self) -> None:
        self._programs[self.master].kill()

    def has_failed_over(self) -> bool:
        """Return whether the replica has become the master."""
        with self._connect(self.replica) as replica:
            return bool(replica.info("replication")["role"] == "master")

    def _connect(self, port: int) -> Redis:
        return Redis(LOOPBACK, port, password=_VALKEY_PASSWORD)

    def _start(self, port: int, configuration: str, *options: str) -> None:
        file = self._folder / f"{port}.conf"
        file.write_text(f"port {port}\nbind {LOOPBACK}\nsave ''\ndir {self._folder}\n{configuration}")
        program = running(self._binary, str(file), *options, stdout=subprocess.DEVNULL)
        self._programs[port] = self._stack.enter_context(program)
        with Redis(LOOPBACK, port, password=None if options else _VALKEY_PASSWORD) as started:
            wait_until(lambda: _answers(started), f"port {port} answers")


def _answers(redis: Redis) -> bool:
    try:
        return bool(redis.ping())
    except RedisError:
        return False


def test_accounts_wait_for_another_master(
    embedded_servers: EmbeddedServers,
    migrated: Settings,
    sessions: sessionmaker[Session],
    make_client: MakeClient,
    tmp_path: Path,
) -> None:
    held = patch.object(known_commits, "HOLD_SECONDS", 30.0)
    with held, ExitStack() as stack:
        sentinel = Sentinel(embedded_servers, tmp_path, stack)
        settings = replace(migrated, redis_url=sentinel.url)
        supplier = SupplierClient.create(make_client(settings).application, sessions)
        first, second = supplier.stage_new(2)

        assert supplier.process(first).status_code == 202
        celery = create_celery(settings)
        sentinel.lose_master()
        assert supplier.status(second).status_code == 200
        assert not sentinel.has_failed_over()
        assert supplier.process(second).status_code == 202
        assert sentinel.has_failed_over()
        wait_until(lambda: publish(celery, CREATE_SET), "the broker is the other master, too")
        close_celery(celery)


@pytest.mark.parametrize(
    "address", ["redis://one:6379/0", "sentinel://one:26379/0", "sentinel://one?master_name=m;redis://two"]
)
def test_other_addresses_are_not_of_sentinels(address: str) -> None:
    assert Sentinels.of(address) is None


def test_an_address_of_sentinels_has_the_login_of_both_and_options_of_redis() -> None:
    found = Sentinels.of(
        "sentinel://u:p%40x@one:1/3?master_name=main&sentinel_password=own&protocol=3;sentinel://two"
    )
    assert found is not None
    assert found.addresses == [("one", 1), ("two", 26379)]
    assert found.own_login == {"password": "own"}
    assert found.options == {"username": "u", "password": "p@x", "db": 3, "protocol": 3}
    assert found.broker_url == "sentinel://u:p%40x@one:1/3;sentinel://two"
