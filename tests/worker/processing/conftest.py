"""A real mail server, and workers that send through it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from celery import current_app

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.tasks import emails as email_tasks
from migration_service.tasks.app import MigrationCelery
from support.factories import close_celery
from support.mail_box import SENDER, Mailbox, free_port


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def controller(mailbox: Mailbox) -> Iterator[Controller]:
    """A real mail server, which a test may stop."""
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    controller.start()
    yield controller
    if not controller.loop.is_closed():
        controller.stop()


@pytest.fixture
def make_celery(
    migrated: Settings,
) -> Iterator[Callable[..., MigrationCelery]]:
    """Makes workers' applications with these settings and their own broker, which the tasks use."""
    before = current_app._get_current_object()  # type: ignore[attr-defined]
    made: list[MigrationCelery] = []
    email_tasks.breaker.record_success()  # whatever the test before this one has done

    def make(**changed: Any) -> MigrationCelery:
        broker = migrated.redis_url.rsplit("/", 1)[0] + "/6"
        made.append(create_celery(replace(migrated, **{"redis_url": broker, **changed})))
        return made[-1]

    yield make
    for celery in made:
        close_celery(celery)
    before.set_current()


@pytest.fixture
def celery(make_celery: Callable[..., MigrationCelery], controller: Controller) -> MigrationCelery:
    """A worker's application that sends through the mail server."""
    return make_celery(smtp_url=f"smtp://127.0.0.1:{controller.port}", email_from=SENDER)
