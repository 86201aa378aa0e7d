"""Waves from their plan to their end, by a clock that the test sets."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from sqlalchemy import select

from migration_service.db.base import new_id
from migration_service.models import Account
from migration_service.services.batches.intake import upload as batch_upload
from migration_service.services.batches.work.chunks import claim_chunk, work_on_chunk
from support.wave_client import EVENING, NIGHT, WaveClient


@pytest.fixture(autouse=True)
def _short_chunks() -> Iterator[None]:
    with patch.object(batch_upload, "CHUNK_LINES", 5):
        yield


def _created(waves: WaveClient) -> list[str]:
    with waves.supplier.Session() as session:
        return [*session.scalars(select(Account.external_account_number))]


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
