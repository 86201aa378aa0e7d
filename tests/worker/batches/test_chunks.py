"""Chunks and lines of batches: what becomes of them, of those that do not run, and after errors."""

from unittest.mock import patch
from uuid import UUID

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from flask import Flask

from migration_service.blueprints.requests.resources import resources
from migration_service.db.base import new_id
from migration_service.models import BatchChunk
from migration_service.services.batches.work import chunks, execution
from migration_service.states import ChunkState, SupplierStatus
from migration_service.tasks.batches import run_chunk
from support.audit import audited
from support.batch_client import BatchClient, counts


def _chunk(batches: BatchClient, key: chunks.ChunkKey) -> BatchChunk:
    with batches.resources.Session() as session:
        return session.get_one(BatchChunk, (key.batch_id, key.first_line))


@pytest.mark.parametrize("hindrance", ["the batch is paused", "the supplier is paused"])
def test_a_claim_on_a_batch_that_does_not_run_is_released_with_its_try(
    batches: BatchClient, hindrance: str
) -> None:
    batch_id = batches.start(batches.supplier.accounts(2))
    (key,) = batches.dispatch()
    attempts = [new_id(), new_id()]
    with batches.resources.Session.begin() as session:
        assert chunks.claim_chunk(session, key, attempts)
    assert _chunk(batches, key).tries == 1
    if hindrance == "the batch is paused":
        assert batches.change(batch_id, "pause").status_code == 200
    else:
        batches.supplier.set_status(SupplierStatus.PAUSED)
    with batches.resources.Session.begin() as session:
        assert chunks.work_on_chunk(session, key, attempts) is None
    chunk = _chunk(batches, key)
    assert (chunk.state, chunk.attempts, chunk.tries) == (ChunkState.PENDING, None, 0)
    assert counts(batches.get(batch_id)) == {"PENDING": 2}


def test_a_piece_that_takes_too_long_is_worked_on_again_in_smaller_ones(
    batches: BatchClient, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    with app.app_context():
        resources().celery.set_current()
    batches.cancel_all()
    batch_id = batches.start(batches.supplier.accounts(20))
    (key,) = batches.dispatch()
    pieces: list[int] = []

    def interrupted(_session: object, _key: chunks.ChunkKey, attempts: list[UUID], **_options: float) -> int:
        pieces.append(len(attempts))
        raise SoftTimeLimitExceeded

    def watched(session: object, key: chunks.ChunkKey, attempts: list[UUID], **options: float) -> int | None:
        pieces.append(len(attempts))
        return chunks.work_on_chunk(session, key, attempts, **options)  # type: ignore[arg-type]

    with patch.object(execution, "work_on_chunk", interrupted):
        assert "no time left" in run_chunk(str(key.batch_id), key.first_line)
    assert "took too long" in caplog.text
    assert (_chunk(batches, key).attempts, counts(batches.get(batch_id))) == (None, {"PENDING": 20})
    with patch.object(execution, "work_on_chunk", watched):
        batches.work()
    # A sixteenth of its lines.
    assert pieces == [20, *[2] * 10]
    assert counts(batches.get(batch_id)) == {"IMPORTED": 20}


BROKEN = b"{"
REASON = "error_threshold_reached"


def test_a_worker_finishes_what_it_has_and_none_begins_anything(batches: BatchClient) -> None:
    batch_id = batches.start([BROKEN] * 500, "validate", stop_after_errors="1")
    one, other, third, *_ = batches.dispatch()
    sessions = batches.resources.Session
    attempts = {key: [new_id() for _ in range(100)] for key in (one, other)}
    for key in (one, other):  # both have begun before the first error
        with sessions.begin() as session:
            assert chunks.read_chunk(session, key) is not None
        with sessions.begin() as session:
            assert chunks.claim_chunk(session, key, attempts[key])
    with sessions.begin() as session:
        assert chunks.work_on_chunk(session, one, attempts[one]) == 0
    assert batches.get(batch_id)["state"] == "RUNNING"
    with sessions.begin() as session:
        assert chunks.work_on_chunk(session, other, attempts[other]) == 0
    with sessions.begin() as session:
        assert chunks.read_chunk(session, third) is None
    report = batches.get(batch_id)
    assert (report["state"], report["reason"]) == ("PAUSED", REASON)
    assert counts(report) == {"FAILED": 200, "PENDING": 300}
    (entry,) = audited(sessions, subject=batch_id)
    assert (entry.action, entry.actor_kind) == ("batch.paused", "service")
    assert (entry.details or {}).items() >= {"reason": REASON, "lines": 200, "errors": 200}.items()
