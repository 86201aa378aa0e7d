"""Waves from their plan to their end, by a clock that the test sets."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import select, update

from migration_service.db.base import new_id
from migration_service.models import Account, BatchChunk
from migration_service.services.batches.intake import upload as batch_upload
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, work_on_chunk
from migration_service.services.batches.work.execution import perform_chunk
from support.audit import audited
from support.wave_client import DAY, EVENING, NIGHT, WaveClient


@pytest.fixture(autouse=True)
def _short_chunks() -> Iterator[None]:
    with patch.object(batch_upload, "CHUNK_LINES", 5):
        yield


def _wave(waves: WaveClient, plan: dict[str, Any], number: int) -> dict[str, Any]:
    wave: dict[str, Any] = waves.get(plan)["waves"][number - 1]
    return wave


def _created(waves: WaveClient) -> list[str]:
    with waves.supplier.Session() as session:
        return [*session.scalars(select(Account.external_account_number))]


def _do(waves: WaveClient, batch_id: str, first_line: int) -> None:
    resources = waves.batches.resources
    assert perform_chunk(resources.Session, resources.slots, ChunkKey(UUID(batch_id), first_line), reserve=50)


def _told(waves: WaveClient, plan: dict[str, Any]) -> list[tuple[str, str]]:
    entries = audited(waves.supplier.Session, subject_kind="wave")
    return [(it.action, str(it.subject).split()[-1]) for it in entries]


def test_a_wave_runs_in_its_window_pauses_at_its_end_and_goes_on_in_the_next(waves: WaveClient) -> None:
    waves.stage(15)
    plan = waves.plan({"rest": True, "window": NIGHT})
    waves.run()
    assert _wave(waves, plan, 1)["waits_for"] == "window"
    waves.now = EVENING
    waves.sweep()
    batch_id = plan["waves"][0]["batch_id"]
    assert (waves.states(plan), waves.batches.get(batch_id)["state"]) == (["RUNNING"], "RUNNING")
    assert waves.batches.dispatch()
    _do(waves, batch_id, 1)
    waves.now = EVENING.replace(hour=23, minute=59, second=59)
    _do(waves, batch_id, 6)
    waves.now = EVENING.replace(day=3, hour=0)
    _do(waves, batch_id, 11)  # no sweep has run, and beat may be dead
    assert len(_created(waves)) == 10
    report = waves.batches.get(batch_id)
    assert (report["state"], report["reason"]) == ("PAUSED", "window_closed")
    waves.run()
    wave = _wave(waves, plan, 1)
    assert (wave["state"], wave["reason"]) == ("PAUSED", "window_closed")
    assert (wave["opens_at"], wave["closes_at"]) == ("2026-03-03T22:00:00Z", "2026-03-04T00:00:00Z")
    waves.now = EVENING + DAY
    _recover(waves)
    waves.run()
    assert (waves.states(plan), len(_created(waves))) == (["CLEAN"], 15)
    assert [action for action, _ in _told(waves, plan)] == [
        "wave.queued",
        "wave.began",
        "wave.paused",
        "wave.continued",
        "wave.reconciled",
        "wave.found_clean",
    ]


def test_a_worker_that_has_claimed_lines_does_not_begin_them_after_the_end_of_the_window(
    waves: WaveClient,
) -> None:
    waves.stage(5)
    waves.plan({"rest": True, "window": NIGHT})
    waves.now = EVENING
    waves.sweep()
    (key,) = waves.batches.dispatch()
    attempts = [new_id() for _ in range(5)]
    with waves.supplier.Session.begin() as session:
        assert claim_chunk(session, key, attempts)
    waves.now = EVENING.replace(day=3, hour=0)
    with waves.supplier.Session.begin() as session:
        assert work_on_chunk(session, key, attempts) is None
    assert _created(waves) == []


def _recover(waves: WaveClient) -> None:
    """Let the chunks be found whose messages found a paused batch."""
    with waves.batches.resources.Session.begin() as session:
        session.execute(
            update(BatchChunk).where(BatchChunk.state == "DISPATCHED").values(state="PENDING", attempts=None)
        )
