"""A worker continues when Redis becomes unavailable while it has unacknowledged messages, and on a busy host.

Celery 5.7.0 ends about every third time, in one of two ways. A new version has to pass these tests.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from kombu.exceptions import OperationalError
from kombu.transport import redis
from redis import RedisError

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.tasks.acknowledging import release_what_is_not_acknowledged
from migration_service.tasks.names import CREATE_SET
from migration_service_local.servers.process import Child, stop_children
from migration_service_local.up.programs import Programs, Scale
from support.servers import EmbeddedServers, wait_until

pytestmark = pytest.mark.long

TIMES = 8
FREEZES = 5
TESTS = Path(__file__).parent.parent


class Publisher(threading.Thread):
    """Publishes messages that attempts wait, although none do. A worker takes and acknowledges them."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(daemon=True)
        self._celery = create_celery(settings)
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.001):
            try:
                self._celery.send_task(CREATE_SET, retry=False)
            except (OperationalError, RedisError):
                continue

    def stop(self) -> None:
        self._over.set()
        self.join()
        self._celery.close()


@pytest.fixture
def servers(prepared_servers: Path) -> Iterator[EmbeddedServers]:
    with EmbeddedServers.copy_of(prepared_servers) as servers:
        yield servers


@pytest.fixture
def settings(servers: EmbeddedServers) -> Settings:
    home = servers.home
    values = {
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": home.secret("secret_key"),
    }
    home.write("settings.json", values)
    return Settings.from_env({"MIGRATION_SERVICE_HOME": str(home.path)})


class Worker:
    """A worker of the service, and its log."""

    def __init__(self, servers: EmbeddedServers, *options: str) -> None:
        [program, *_] = Programs(servers.home, Scale()).workers()
        environment = dict(program.environment) | {"MIGRATION_SERVICE_LOG_LEVEL": "DEBUG"}
        environment["PYTHONPATH"] += f"{os.pathsep}{TESTS}"
        arguments = [*program.arguments, *options]
        self._log = servers.folder / "worker.log"
        with self._log.open("wb") as log:
            self.child = Child(replace(program, arguments=arguments, environment=environment), log)

    def wait_until_it_consumes(self, within: float) -> None:
        """Wait until it has taken a few more messages."""
        before = self.count(" received")
        wait_until(lambda: self.count(" received") > before + 5, "the worker takes messages", within)

    def count(self, text: str) -> int:
        """Return how often this is in its log. Fail if it has ended."""
        log = self._log.read_text()
        assert self.child.process.poll() is None, f"the worker has ended:\n{log[-4000:]}"
        return log.count(text)


@pytest.fixture
def worker(servers: EmbeddedServers, settings: Settings) -> Iterator[Worker]:
    worker = Worker(servers)
    yield worker
    stop_children([worker.child])


def test_the_same_worker_consumes_within_15_seconds_after_each_outage_of_redis(
    servers: EmbeddedServers, settings: Settings, worker: Worker
) -> None:
    publisher = Publisher(settings)
    publisher.start()
    try:
        worker.wait_until_it_consumes(within=60)  # it starts while other tests run
        for outage in range(TIMES):
            if outage % 2:
                servers.kill("valkey")
            else:
                stop_children([servers.children.pop("valkey")])
            servers.start("valkey")
            worker.wait_until_it_consumes(within=15)
    finally:
        publisher.stop()
    # Its children have lost connections, too, and must not wait forever.
    worker.child.process.terminate()
    assert worker.child.process.wait(10) == 0


def test_a_worker_takes_messages_after_redis_was_frozen(servers: EmbeddedServers, settings: Settings) -> None:
    worker = Worker(servers, "--concurrency", "1")
    publisher = Publisher(settings)
    publisher.start()
    try:
        worker.wait_until_it_consumes(within=60)
        for _ in range(FREEZES):
            servers.send("valkey", signal.SIGSTOP)
            time.sleep(4)  # longer than any time-out for Redis
            servers.send("valkey", signal.SIGCONT)
            worker.wait_until_it_consumes(within=15)
    finally:
        publisher.stop()
        stop_children([worker.child])


def test_a_message_whose_acknowledgement_fails_takes_no_place(
    servers: EmbeddedServers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis.Channel, "QoS", redis.Channel.QoS)
    release_what_is_not_acknowledged()
    celery = create_celery(settings)
    celery.send_task(CREATE_SET)
    with celery.connection_for_read() as connection:
        channel = cast(redis.Channel, connection.default_channel)
        channel.basic_qos(0, 1, False)
        message = channel.basic_get("interactive")
        assert message
        assert not channel.qos.can_consume()
        servers.send("valkey", signal.SIGSTOP)
        try:
            with pytest.raises(connection.connection_errors):
                message.ack()
        finally:
            servers.send("valkey", signal.SIGCONT)
        assert channel.qos.can_consume()
    celery.close()


def test_a_child_may_take_long_to_start(servers: EmbeddedServers, settings: Settings) -> None:
    each_task_in_another_child = "--concurrency", "1", "--max-tasks-per-child", "1"
    worker = Worker(servers, "--include", "support.slow_start", *each_task_in_another_child)
    publisher = Publisher(settings)
    publisher.start()
    try:
        wait_until(lambda: worker.count(" succeeded in") > 2, "tasks end", 120)
    finally:
        publisher.stop()
        stop_children([worker.child])
