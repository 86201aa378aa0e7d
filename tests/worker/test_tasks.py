"""Tasks as Celery runs them, their schedule, and what monitors are told."""

import json
import logging
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import psycopg
import pytest
from celery.signals import task_postrun, task_prerun
from flask import Flask
from kombu.utils import symbol_by_name
from sqlalchemy import func, select, update
from sqlalchemy.exc import OperationalError

from migration_service.blueprints.requests.resources import resources
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.log import request_id
from migration_service.metrics import shared
from migration_service.metrics.shared import is_resting, read_queue_waits, read_task_times
from migration_service.models import ApiKey, BatchChunk, Event, Organisation, TokenSession
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.batches.intake import upload
from migration_service.services.imports.quota import StagedQuota
from migration_service.services.reporting import retention
from migration_service.states import ChunkState
from migration_service.tasks import maintenance, names, run_log, steady_beat
from migration_service.tasks.accounts import publish_set
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.batches import run_chunk, run_vendor_chunk
from migration_service.tasks.maintenance import SweepError, count_accounts_for_metrics, sweep
from migration_service.tasks.publishing import publish
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.messages import Message, noted_messages
from support.supplier_client import SupplierClient


@pytest.fixture
def published() -> Iterator[list[Message]]:
    with noted_messages() as messages:
        yield messages


@pytest.mark.parametrize("run", [run_chunk, run_vendor_chunk])
def test_a_chunk_is_worked_on_and_the_next_ones_are_published(
    batches: BatchClient, published: list[Message], run: Any
) -> None:
    batches.cancel_all()
    with patch.object(upload, "CHUNK_LINES", 2):
        batch_id = batches.start(batches.supplier.accounts(5), "stage")
    with batches.supplier.Session.begin() as session:
        later = update(BatchChunk).where(BatchChunk.batch_id == UUID(batch_id), BatchChunk.first_line > 1)
        session.execute(later.values(state=ChunkState.PENDING, dispatched_at=None))
    published.clear()
    assert run.run(batch_id, 1) == f"line 1 of {batch_id}: done"
    assert sorted(published) == [(names.RUN_CHUNK, (batch_id, line)) for line in (3, 5)]
    for line in (3, 5):
        assert run.run(batch_id, line) == f"line {line} of {batch_id}: done"
    assert batches.get(batch_id)["state"] == "COMPLETED"


def test_a_message_leads_to_the_chunk_whose_turn_it_is(batches: BatchClient) -> None:
    batches.cancel_all()
    with patch.object(upload, "CHUNK_LINES", 1):
        batch_id = batches.start(batches.supplier.accounts(2), "stage")
    for line in (1, 2):
        assert run_chunk.run(batch_id, 2) == f"line {line} of {batch_id}: done"


def test_a_sweep_publishes_chunks_for_their_own_workers_whatever_else_fails(
    batches: BatchClient, published: list[Message], caplog: pytest.LogCaptureFixture
) -> None:
    batch_id = batches.start([{}], "import", kind="payment-instructions")
    with batches.supplier.Session.begin() as session:
        due = update(BatchChunk).where(BatchChunk.batch_id == UUID(batch_id))
        session.execute(due.values(state=ChunkState.PENDING, dispatched_at=None))
    published.clear()
    broken = patch.object(maintenance, "set_apart", side_effect=ValueError("a defect"))
    with broken, pytest.raises(SweepError, match="sweep_attempts failed"):
        sweep.run()
    assert (names.RUN_VENDOR_CHUNK, (batch_id, 1)) in published
    assert "ValueError: a defect" in caplog.text
    lost = OperationalError("", {}, psycopg.OperationalError())
    with patch.object(maintenance, "recover_chunks", side_effect=[lost, []]) as recover:
        sweep()
    assert recover.call_count == 2, "it is repeated on the next primary server"


@pytest.mark.parametrize(
    ("task", "state", "result", "outcome", "level"),
    [
        (run_chunk, "SUCCESS", "done", "done", logging.INFO),
        (run_chunk, "SUCCESS", "nothing to do", "nothing to do", logging.DEBUG),
        (run_chunk, "SUCCESS", None, "SUCCESS", logging.INFO),
        (run_chunk, "FAILURE", "text of an error", "FAILURE", logging.INFO),
        (sweep, "SUCCESS", None, "SUCCESS", logging.DEBUG),
        (sweep, "FAILURE", None, "FAILURE", logging.INFO),
    ],
)
def test_a_task_is_logged_and_counted_with_its_outcome_and_time(
    worker_resources: WorkerResources,
    caplog: pytest.LogCaptureFixture,
    *,
    task: Any,
    state: str,
    result: object,
    outcome: str,
    level: int,
) -> None:
    begun = time.monotonic()
    task.push_request(request_id="the request")
    try:
        task_prerun.send(sender=task, task=task, task_id="1")
        assert request_id.get() == "the request"
        task.request.began_at -= 1.25
        with caplog.at_level(logging.DEBUG, logger=run_log.__name__):
            task_postrun.send(sender=task, task=task, task_id="1", state=state, retval=result)
    finally:
        task.pop_request()
    assert request_id.get() is None
    (record,) = [vars(it) for it in caplog.records if it.name == run_log.__name__]
    assert (record["levelno"], record["outcome"], record["state"]) == (level, outcome, state)
    assert (record["task"], record["task_id"]) == (task.name, "1")
    assert 1_250 <= record["duration_ms"] <= 1_250 + (time.monotonic() - begun) * 1_000 + 1
    (counted,) = read_task_times(worker_resources.redis)
    assert counted.labels == [task.name, state]


@pytest.mark.parametrize(
    ("ago", "redelivered", "waits"),
    [(7.0, False, [("batch", 7.0)]), (-60.0, False, [("batch", 0.0)]), (7.0, True, []), (None, False, [])],
    ids=["waited", "clock ahead", "delivered again", "of an older version"],
)
def test_the_time_that_a_message_waited_in_its_queue_is_counted(
    worker_resources: WorkerResources, *, ago: float | None, redelivered: bool, waits: list[tuple[str, float]]
) -> None:
    worker_resources.redis.delete(shared.WAITS)
    message: dict[str, Any] = {"delivery_info": {"routing_key": "batch", "redelivered": redelivered}}
    if ago is not None:
        message["published_at"] = time.time() - ago
    run_chunk.push_request(**message)
    try:
        task_prerun.send(sender=run_chunk, task=run_chunk, task_id="1")
        task_postrun.send(sender=run_chunk, task=run_chunk, task_id="1", state="SUCCESS", retval="done")
    finally:
        run_chunk.pop_request()
    found = [(it.labels[0], it.seconds) for it in read_queue_waits(worker_resources.redis)]
    assert [queue for queue, _ in found] == [queue for queue, _ in waits]
    # As long as it waited, and a little more, as the test took.
    assert all(known <= seconds for (_, seconds), (_, known) in zip(found, waits, strict=True))


def test_the_audit_is_removed_after_the_time_of_the_settings(worker_resources: WorkerResources) -> None:
    app = celery_app()
    settings = replace(app.settings, audit_retention_days=123)
    with (
        patch.object(app, "settings", settings),
        patch.object(maintenance, "remove_days", return_value=0) as remove,
    ):
        maintenance.remove_old_data()
    assert remove.call_args.kwargs == {"after_days": 123}


def test_old_data_is_removed_piece_by_piece_until_nothing_is_left(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    with worker_resources.Session.begin() as session:
        own = select(ApiKey.id).where(ApiKey.prefix == find_prefix(supplier.api_key))
        key_id, ended = session.scalars(own).one(), datetime.now(UTC) - timedelta(days=35)
        session.add_all(TokenSession(id=uuid4(), api_key_id=key_id, expires_at=ended) for _ in range(3))
        session.get_one(ApiKey, key_id).expires_at = datetime.now(UTC) + timedelta(days=3)
    with patch.object(retention, "PIECE", 1), patch.object(maintenance, "PIECE", 1):
        maintenance.remove_old_data()
    with worker_resources.Session() as session:
        assert session.scalars(select(func.min(TokenSession.expires_at))).one() > datetime.now(UTC)
        owner = session.get_one(ApiKey, key_id).organisation_id
        assert "api_key.expires" in session.scalars(select(Event.type).where(Event.organisation_id == owner))


def test_counting_notes_who_is_at_the_quota_and_rests_only_after_a_long_count(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    other = SupplierClient.create(supplier.app, supplier.Session)
    for account in supplier.accounts(2):
        supplier.stage(account)
    other.stage(other.accounts()[0])
    app = celery_app()
    with patch.object(app, "settings", replace(app.settings, max_staged_accounts=2)):
        count_accounts_for_metrics()
    quota = StagedQuota(worker_resources.redis, 2)
    with supplier.Session() as session:
        ids = [
            session.scalars(select(Organisation.id).where(Organisation.name == it.organisation)).one()
            for it in (supplier, other)
        ]
    assert [quota.is_reached(it) for it in ids] == [True, False]
    assert not is_resting(worker_resources.redis)


ENTRIES = ("sweep", "count-accounts", "events", "removal")


def _celery(app: Flask) -> MigrationCelery:
    with app.app_context():
        return resources().celery


def test_each_entry_is_sent_at_the_start_and_once_in_its_interval_whatever_the_clock_says(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    celery, sent, clock = _celery(app), [], SimpleNamespace(monotonic=lambda: 1_000.0)
    monkeypatch.setattr(steady_beat, "time", clock)
    # Not with monkeypatch, which would leave an attribute on the application that later tests share.
    with (
        patch.object(celery, "send_task", lambda task, *_args, **_options: sent.append(task)),
        patch.object(celery, "now", wraps=celery.now) as now,
    ):
        scheduler = symbol_by_name(celery.conf.beat_scheduler)(app=celery)
        assert scheduler.tick() == names.SWEEP_INTERVAL
        assert len(sent) == len(ENTRIES)
        assert scheduler.tick() == names.SWEEP_INTERVAL
        assert len(sent) == len(ENTRIES)
        now.return_value = datetime.now(UTC) - timedelta(hours=1)
        clock.monotonic = lambda: 1_000.0 + names.SWEEP_INTERVAL
        scheduler.tick()
    assert sent[len(ENTRIES) :] == [names.SWEEP]


def test_beat_says_in_one_line_that_it_cannot_send(
    migrated: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    celery = create_celery(replace(migrated, redis_url="redis://127.0.0.1:1/0"), loads_tasks=False)
    scheduler = symbol_by_name(celery.conf.beat_scheduler)(app=celery)
    scheduler.apply_entry(scheduler.schedule["sweep"])
    celery.close()
    (line,) = [it for it in caplog.records if it.levelname == "ERROR"]
    assert "could not send maintenance.sweep," in line.getMessage()
    assert line.exc_info is None


def test_every_entry_is_run_by_a_test(app: Flask) -> None:
    assert sorted(ENTRIES) == sorted(_celery(app).conf.beat_schedule)


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_names_a_task_that_runs_on_a_queue_that_a_worker_takes(
    worker_resources: WorkerResources, app: Flask, name: str
) -> None:
    celery = _celery(app)
    celery.set_current()
    celery.loader.import_default_modules()
    entry = celery.conf.beat_schedule[name]
    route = celery.amqp.router.route({}, entry["task"])
    assert route["queue"].name in names.QUEUES
    celery.tasks[entry["task"]].run()


def test_flower_is_told_of_a_chunk_when_it_is_sent_and_of_a_set_when_it_is_received(
    migrated: Settings,
) -> None:
    """An announcement is in the way of a waiting client, and says nothing of any account."""
    celery, redis = create_celery(migrated), make_redis(migrated.redis_url)
    with redis.pubsub() as events:  # type: ignore[no-untyped-call]
        events.psubscribe("*celeryev*")
        assert events.get_message(timeout=5)  # it listens
        assert publish_set(celery)
        assert publish(celery, names.RUN_CHUNK, str(uuid4()), 1)
        first = events.get_message(timeout=5)
    told = json.loads(b64decode(json.loads(first["data"])["body"]))
    assert (told["type"], told["name"]) == ("task-sent", names.RUN_CHUNK)
    assert redis.llen("migration:interactive") == 1
    redis.close()
    celery.close()
