"""The sweep that advances plans, depending on the clock and the rows, under the lock of each plan.

Nothing is scheduled. If no sweep runs for a while, the next one finds the same work; two simultaneous sweeps
do it once. A late sweep starts a wave late in its window. It does not end a window late, because workers know
the end (`Batch.runs_until`) and check it before each piece of work.
"""

import logging
from datetime import datetime
from itertools import zip_longest
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import ServiceError
from migration_service.models import Batch, BatchChunk, Wave, WavePlan
from migration_service.services.batches import clock
from migration_service.services.batches.states import OPEN, WINDOW_CLOSED, complete_batches, pause_for
from migration_service.services.batches.undo_guards import find_undo_of_plan
from migration_service.services.waves import running
from migration_service.services.waves.reading import list_waves, lock_batch
from migration_service.services.waves.states import DECIDABLE, QUEUE, REOPEN, change_wave, is_over
from migration_service.states import BatchState, ChunkState, WaveState

logger = logging.getLogger(__name__)


def advance_plans(sessions: sessionmaker[Session]) -> None:
    """Advance every unfinished plan, each in a separate transaction."""
    with sessions.begin() as session:
        plans = session.scalars(select(WavePlan.id).where(WavePlan.finished_at.is_(None))).all()
    for plan_id in plans:
        try:
            with sessions.begin() as session:
                advance_plan(session, plan_id)
        except (ServiceError, DBAPIError) as error:
            # A failure in one plan does not affect others. The next sweep tries again.
            logger.warning("Wave plan %s was not carried on: %s", plan_id, error)


def advance_plan(session: Session, plan_id: UUID) -> None:
    """Advance a plan as far as possible now.

    Do nothing if another process has its lock, or while accounts of the plan are being undone.
    """
    unfinished = select(WavePlan).where(WavePlan.id == plan_id, WavePlan.finished_at.is_(None))
    plan = session.scalars(unfinished.with_for_update(skip_locked=True, key_share=True)).one_or_none()
    if plan is None or find_undo_of_plan(session, plan_id):
        return
    now = clock.read_clock(session)
    waves = list_waves(session, plan_id)
    for wave in waves:
        running.reconcile_undone(session, plan, wave)
    for wave, following in zip_longest(waves, waves[1:]):
        if not is_over(plan, wave):
            _advance_wave(session, plan, wave, following, now)
            return
    plan.finished_at = now


def _advance_wave(
    session: Session, plan: WavePlan, wave: Wave, following: Wave | None, now: datetime
) -> None:
    """Advance the first unfinished wave."""
    batch = lock_batch(session, wave)
    if batch.state == BatchState.CANCELLED and wave.state in (WaveState.PLANNED, WaveState.WAITING):
        running.stop_waves(session, plan, wave, reason=running.BATCH_CANCELLED)
        return
    if wave.state == WaveState.PLANNED:
        change_wave(session, plan, wave, QUEUE)
    if wave.state == WaveState.WAITING:
        closes_at = running.closing_time(wave, now)
        # Without a window, a person starts the first wave of a plan; later waves follow the previous one.
        if closes_at or (wave.time_window is None and wave.number > 1):
            running.run_wave(session, plan, wave, batch, until=closes_at)
    elif wave.state in DECIDABLE:
        if batch.state not in running.ENDED:
            change_wave(session, plan, wave, REOPEN)
        elif following and following.state == WaveState.PLANNED:
            change_wave(session, plan, following, QUEUE)
    if wave.state in (WaveState.RUNNING, WaveState.PAUSED):
        _follow_window(session, wave, batch, now)
        running.follow_batch(session, plan, wave, batch)


def _follow_window(session: Session, wave: Wave, batch: Batch, now: datetime) -> None:
    """Pause the batch of a wave outside its window, and resume it within."""
    if wave.time_window is None:
        return
    closes_at = running.closing_time(wave, now)
    if batch.state in OPEN and closes_at is None:
        pause_for(session, batch.id, WINDOW_CLOSED)
        session.refresh(batch)
    elif batch.state in OPEN:
        batch.runs_until = closes_at
    elif batch.state == BatchState.PAUSED and batch.reason == WINDOW_CLOSED:
        _resume_in_window(session, batch, closes_at)


def _resume_in_window(session: Session, batch: Batch, closes_at: datetime | None) -> None:
    """Resume a batch if its window is open. A batch without lines left only has to end."""
    left = exists().where(BatchChunk.batch_id == batch.id, BatchChunk.state != ChunkState.DONE)
    if closes_at is None and session.scalar(select(left)):
        return
    since = batch.brake_since
    running.run_batch(session, batch, closes_at or batch.runs_until)
    batch.brake_since = since  # nobody has seen the errors
    complete_batches(session)
    session.refresh(batch)
