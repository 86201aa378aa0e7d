"""A whole plan while beat and workers are killed: each account once, and nothing outside a window."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import func, select, update

from migration_service.db.base import new_id
from migration_service.models import Account, BatchChunk, WavePlan
from migration_service.services.batches.intake import upload as batch_upload
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, read_chunk, work_on_chunk
from migration_service.services.batches.work.feed import recover_chunks
from migration_service.services.waves.reconciliation import reconcile_page, reconcile_waves
from migration_service.services.waves.sweep import advance_plan, advance_plans
from migration_service.services.waves.windows import Opening, Window, find_opening
from support.wave_client import WaveClient

#: Nights of four hours, and of three on the second day, when the clock goes from 02:00 to 03:00.
NIGHTS = {"start": "23:00", "end": "03:00", "time_zone": "Europe/Amsterdam", "first_day": "2026-03-27"}
WINDOW = Window(start=time(23), end=time(3), time_zone="Europe/Amsterdam", first_day=date(2026, 3, 27))
ACCOUNTS = 48


@dataclass
class Chaos:
    """Beat and workers, any of which may die at any step."""

    waves: WaveClient
    plan: dict[str, Any]
    rng: Random
    #: When lines came to their outcome: the moment at which their work began.
    worked_at: list[datetime] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    _tries: Counter[ChunkKey] = field(default_factory=Counter)

    def beat(self) -> None:
        """Sweep, or not, or die within the sweep."""
        sessions = self.waves.batches.resources.Session
        fate = self.rng.random()
        if fate < 0.2:
            self.killed["beat between two sweeps"] += 1
        elif fate < 0.35:
            self.killed["a worker within a sweep"] += 1
            with sessions() as session:
                advance_plan(session, UUID(self.plan["plan_id"]))
                session.flush()  # and no commit
        elif fate < 0.5:
            self.killed["a worker within the reconciliation"] += 1
            advance_plans(sessions)
            for wave in self.plan["waves"]:
                with sessions() as session:
                    reconcile_page(session, UUID(wave["batch_id"]))
                    session.flush()
        else:
            advance_plans(sessions)
            reconcile_waves(sessions, seconds=60)

    def is_over(self) -> bool:
        with self.waves.batches.resources.Session() as session:
            return session.get_one(WavePlan, UUID(self.plan["plan_id"])).finished_at is not None

    def work(self) -> None:
        """Find what was lost, dispatch, and work on one or two chunks, or die with them."""
        resources = self.waves.batches.resources
        with resources.Session.begin() as session:
            lost = func.now() - timedelta(minutes=1)
            dispatched = update(BatchChunk).where(BatchChunk.state == "DISPATCHED")
            session.execute(dispatched.values(dispatched_at=lost))
            recover_chunks(session)
        for key in self.waves.batches.dispatch()[: self.rng.randint(1, 2)]:
            self._perform(key)

    def _perform(self, key: ChunkKey) -> None:
        sessions = self.waves.batches.resources.Session
        with sessions.begin() as session:
            plan = read_chunk(session, key)
        if plan is None:
            return
        attempts = [new_id() for _ in range(plan.lines)]
        with sessions.begin() as session:
            assert claim_chunk(session, key, attempts)
        # After five tries a line is given up.
        fate = self.rng.random() if self._tries[key] < 3 else 1.0
        if fate < 0.2:
            self._tries[key] += 1
            self.killed["a worker after its claim"] += 1
            return
        self.waves.now += timedelta(minutes=self.rng.choice((0, 0, 20)))
        began_at = self.waves.now
        with sessions() as session:
            left = work_on_chunk(session, key, attempts)
            if fate < 0.4 and left is not None:
                self._tries[key] += 1
                self.killed["a worker before its commit"] += 1
                session.rollback()
                return
            session.commit()
        self._tries[key] = 0
        if left is not None:
            self.worked_at.append(began_at)


@pytest.mark.parametrize("seed", [1, 3])
def test_five_waves_over_three_nights_while_beat_and_workers_are_killed(waves: WaveClient, seed: int) -> None:
    waves.now = datetime(2026, 3, 27, 12, tzinfo=UTC)
    numbers = waves.stage(ACCOUNTS)
    parts = ({"sample": 8}, {"size": 10}, {"accounts": numbers[20:26]}, {"size": 12}, {"rest": True})
    with patch.object(batch_upload, "CHUNK_LINES", 2):
        plan = waves.plan(*parts, window=NIGHTS, continue_if_clean=True, seed=seed)
    rng = Random(seed)
    chaos = Chaos(waves, plan, rng)
    until = waves.now + timedelta(days=12)
    while not chaos.is_over() and waves.now < until:
        is_open = find_opening(WINDOW, waves.now)
        waves.now += timedelta(minutes=rng.randint(5, 25) if is_open else rng.randint(60, 230))
        chaos.beat()
        chaos.work()
    assert waves.states(plan) == ["CLEAN"] * 5
    with waves.supplier.Session() as session:
        created = session.scalars(select(Account.external_account_number)).all()
    assert sorted(created) == sorted(numbers), "each account once"
    openings: set[Opening | None] = {find_opening(WINDOW, moment) for moment in chaos.worked_at}
    assert None not in openings, "nothing outside a window"
    assert len(openings) >= 3
    assert all(chaos.killed[way] for way in ("beat between two sweeps", "a worker within a sweep"))
    assert all(chaos.killed[way] for way in ("a worker after its claim", "a worker before its commit"))
