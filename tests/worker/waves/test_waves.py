"""The end of a window (waves from their plan to their end: transcripts/rest/waves.md)."""

from sqlalchemy import select

from migration_service.db.base import new_id
from migration_service.models import Account
from migration_service.services.batches.work.chunks import claim_chunk, work_on_chunk
from support.wave_client import EVENING, NIGHT, WaveClient


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
        assert session.scalars(select(Account)).all() == []
