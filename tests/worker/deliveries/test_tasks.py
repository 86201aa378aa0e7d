"""The task that sends, and the sweep that starts it."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.services.webhooks.secrets import Seal
from migration_service.tasks import deliveries
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.deliveries import send_deliveries, sweep_deliveries
from migration_service.tasks.names import SEND_DELIVERIES
from support.factories import close_celery
from support.messages import noted_messages
from support.receivers import Receiver
from support.servers import wait_until
from worker.deliveries.conftest import Hooks


@pytest.fixture
def celery(migrated: Settings, hooks: Hooks) -> Iterator[MigrationCelery]:
    """The application of a worker that may send to this machine, and has no key for secrets."""
    settings = replace(migrated, webhook_http=True, webhook_networks="127.0.0.0/8")
    celery = create_celery(settings)
    celery.set_current()
    hooks.seal = Seal(settings.webhook_keys)
    with patch.object(deliveries, "SEND_SECONDS", 1.0):
        yield celery
    sender = deliveries._SENDERS.pop(celery, None)
    if sender is not None:
        sender.finish(5)
    close_celery(celery)


def test_one_message_is_on_its_way_and_each_run_publishes_the_next(
    celery: MigrationCelery, hooks: Hooks, receiver: Receiver
) -> None:
    with noted_messages() as messages:
        sweep_deliveries()
        assert send_deliveries.run() == "nothing to send"
        assert messages == []
        _, secret = hooks.add(receiver.url)
        hooks.tell(3)
        sweep_deliveries()
        sweep_deliveries()
        assert messages == [(SEND_DELIVERIES, ())]
        assert send_deliveries.run() == "3 attempts"
        assert messages == [(SEND_DELIVERIES, ())] * 2
    assert len(receiver.verified(secret)) == 3
    assert hooks.states() == ["DELIVERED"] * 3


def test_one_process_of_a_worker_sends_and_leaves_the_others_to_other_queues(
    celery: MigrationCelery, hooks: Hooks, receiver: Receiver
) -> None:
    """Each would otherwise have a successor, and those of the sweeps would come on top."""
    _, secret = hooks.add(receiver.url)
    hooks.tell()
    begun, begin = os.pipe()
    child = os.fork()
    if not child:
        with deliveries._taking_turn() as is_taken:
            os.write(begin, b"yes" if is_taken else b"no")
            signal.pause()
    with noted_messages() as messages:
        try:
            assert os.read(begun, 3) == b"yes"
            assert send_deliveries.run() == "another process sends"
            assert messages == []
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(begun)
            os.close(begin)
        assert send_deliveries.run() == "1 attempts"
        assert messages == [(SEND_DELIVERIES, ())]
    assert len(receiver.verified(secret)) == 1


def test_what_ends_after_its_turn_is_recorded_though_another_process_may_be_next(
    celery: MigrationCelery, hooks: Hooks, receiver: Receiver
) -> None:
    receiver.manner = "hang"
    hooks.add(receiver.url)
    hooks.tell()
    assert send_deliveries.run() == "nothing sent"
    receiver.answer(204)
    receiver.let_go.set()
    wait_until(lambda: len(hooks.run("SELECT FROM webhook_attempt")) == 1, "it is recorded")
    deliveries._finish()
