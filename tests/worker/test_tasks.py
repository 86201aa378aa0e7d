"""Tasks pass on what their services need, publish what comes next, and say how they ended."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from celery.signals import (
    task_postrun,
    task_prerun,
)
from sqlalchemy import select, update

from migration_service.log import request_id
from migration_service.metrics import shared
from migration_service.metrics.shared import (
    is_resting,
    read_queue_waits,
    read_task_times,
)
from migration_service.models import BatchChunk, Organisation
from migration_service.services.batches.intake import upload
from migration_service.services.imports.quota import StagedQuota
from migration_service.services.processing.slots import acquire_slots
from migration_service.services.setup.limits import get_concurrency_limit, set_concurrency_limit
from migration_service.states import ChunkState
from migration_service.tasks import maintenance, run_log
from migration_service.tasks.app import celery_app
from migration_service.tasks.batches import run_chunk, run_vendor_chunk
from migration_service.tasks.counts import count_accounts_for_metrics
from migration_service.tasks.maintenance import sweep_batches
from migration_service.tasks.names import RUN_CHUNK, RUN_VENDOR_CHUNK
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
    assert sorted(published) == [(RUN_CHUNK, (batch_id, line)) for line in (3, 5)]
    for line in (3, 5):
        assert run.run(batch_id, line) == f"line {line} of {batch_id}: done"
    assert batches.get(batch_id)["state"] == "COMPLETED"


def test_a_message_leads_to_the_chunk_whose_turn_it_is(batches: BatchClient) -> None:
    batches.cancel_all()
    with patch.object(upload, "CHUNK_LINES", 1):
        batch_id = batches.start(batches.supplier.accounts(2), "stage")
    for line in (1, 2):
        assert run_chunk.run(batch_id, 2) == f"line {line} of {batch_id}: done"


def test_a_chunk_that_gets_no_slot_says_so(batches: BatchClient, worker_resources: WorkerResources) -> None:
    batches.cancel_all()
    with worker_resources.Session.begin() as session:
        before = get_concurrency_limit(session)
        set_concurrency_limit(session, 1)
    try:
        batch_id = batches.start(batches.supplier.accounts(1), "import")
        (chunk,) = batches.dispatch()
        assert acquire_slots(worker_resources.Session, worker_resources.slots, [uuid4()], owner=1, limit=1)
        assert "released: no slots, or no time left" in run_chunk.run(batch_id, chunk.first_line)
    finally:
        with worker_resources.Session.begin() as session:
            set_concurrency_limit(session, before)


def test_chunks_of_payment_instructions_are_published_for_their_own_workers(
    batches: BatchClient, published: list[Message]
) -> None:
    batch_id = batches.start([{}], "import", kind="payment-instructions")
    with batches.supplier.Session.begin() as session:
        due = update(BatchChunk).where(BatchChunk.batch_id == UUID(batch_id))
        session.execute(due.values(state=ChunkState.PENDING, dispatched_at=None))
    published.clear()
    sweep_batches()
    assert published == [(RUN_VENDOR_CHUNK, (batch_id, 1))]


@pytest.mark.parametrize(
    ("task", "state", "result", "outcome", "level"),
    [
        (run_chunk, "SUCCESS", "done", "done", logging.INFO),
        (run_chunk, "SUCCESS", "nothing to do", "nothing to do", logging.DEBUG),
        (run_chunk, "SUCCESS", None, "SUCCESS", logging.INFO),
        (run_chunk, "FAILURE", "text of an error", "FAILURE", logging.INFO),
        (sweep_batches, "SUCCESS", None, "SUCCESS", logging.DEBUG),
        (sweep_batches, "FAILURE", None, "FAILURE", logging.INFO),
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
    worker_resources: WorkerResources,
    *,
    ago: float | None,
    redelivered: bool,
    waits: list[tuple[str, float]],
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
