"""When workers are told of a go-live."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from flask import Flask
from sqlalchemy import func, update

from migration_service.blueprints.requests.resources import resources
from migration_service.models import GoLive
from migration_service.tasks.jobs import sweep_jobs
from migration_service.tasks.names import MARK_LIVE
from support.batch_client import BatchClient
from support.messages import noted_messages
from support.undo_client import GoLiveClient

pytestmark = pytest.mark.usefixtures("neighbour")

_LATER = f"{datetime.now(UTC) + timedelta(days=9):%Y-%m-%dT%H:%M:%SZ}"


def _sweep(app: Flask) -> list[Any]:
    """The messages that the sweep publishes."""
    with app.app_context():
        resources().celery.set_current()
    with noted_messages() as messages:
        sweep_jobs()
    return list(messages)


def test_workers_are_told_of_a_go_live_once_its_moment_has_come(batches: BatchClient, app: Flask) -> None:
    go_lives = GoLiveClient(batches.supplier)
    batches.run(batches.supplier.accounts(2))
    number = str(batches.supplier.accounts(2)[0]["external_account_number"])
    with noted_messages() as messages:
        first = go_lives.start(external_account_numbers=[number])
    assert messages == [(MARK_LIVE, (first,))]
    go_lives.work(first)
    second = go_lives.start(at=_LATER)
    assert _sweep(app) == []
    with go_lives.supplier.Session.begin() as session:
        session.execute(update(GoLive).where(GoLive.id == UUID(second)).values(live_at=func.now()))
    assert _sweep(app) == [(MARK_LIVE, (second,))]
