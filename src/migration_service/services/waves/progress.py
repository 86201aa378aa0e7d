"""Carries plans on: a sweep looks at the clock and at the rows, under the lock of the plan.

Nothing is scheduled. If no sweep runs for a while, the next one finds the same work, and two at once find it
once. A sweep that is late begins a window late. It does not end one late, because workers know its end
(`Batch.runs_until`) and check it before each piece of work.
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
from migration_service.services.batches.holds import find_undo_of_plan
from migration_service.services.batches.states import (
    OPEN,
    RESUME,
    WINDOW_CLOSED,
    change_batch,
    complete_batches,
    pause_by_window,
)
from migration_service.services.waves.states import (
    BEGIN,
    DECIDABLE,
    GO_ON,
    PAUSE,
    QUEUE,
    RECONCILE,
    REOPEN,
    change_wave,
    is_over,
)
from migration_service.services.waves.stopping import BATCH_CANCELLED, stop_waves
from migration_service.services.waves.undone import reconcile_undone
from migration_service.services.waves.windows import Window, find_opening
from migration_service.states import BatchState, ChunkState, WaveState

logger = logging.getLogger(__name__)

#: A batch of which no line will be worked on any more. What a person cancelled is open, and differs.
_ENDED = (BatchState.COMPLETED, BatchState.CANCELLED)


def carry_on(sessions: sessionmaker[Session]) -> None:
    """Do what is due in every plan that is not finished, each in a transaction of its own."""
    with sessions.begin() as session:
        plans = session.scalars(select(WavePlan.id).where(WavePlan.finished_at.is_(None))).all()
    for plan_id in plans:
        try:
            with sessions.begin() as session:
                carry_on_plan(session, plan_id)
        except (ServiceError, DBAPIError) as error:
            # What hinders one plan hinders no other. The next sweep tries again.
            logger.warning("Wave plan %s was not carried on: %s", plan_id, error)


def carry_on_plan(session: Session, plan_id: UUID) -> None:
    """Do what is due in a plan.

    Do nothing if another process has its lock and does it, or while accounts of the plan are being undone.
    """
    unfinished = select(WavePlan).where(WavePlan.id == plan_id, WavePlan.finished_at.is_(None))
    plan = session.scalars(unfinished.with_for_update(skip_locked=True, key_share=True)).one_or_none()
    if plan is None:
        return
    if find_undo_of_plan(session, plan_id):
        return
    now = clock.read_clock(session)
    waves = list_waves(session, plan_id)
    for wave in waves:
        reconcile_undone(session, plan, wave)
    for wave, following in zip_longest(waves, waves[1:]):
        if not is_over(plan, wave):
            _carry_on_wave(session, plan, wave, following, now)
            return
    plan.finished_at = now


def list_waves(session: Session, plan_id: UUID) -> list[Wave]:
    """Return the waves of a plan in their order, as they are in the database now."""
    ordered = select(Wave).where(Wave.plan_id == plan_id).order_by(Wave.number)
    return [*session.scalars(ordered.execution_options(populate_existing=True))]


def find_wave(session: Session, batch_id: UUID | None) -> Wave | None:
    """Return the wave that has this batch, or None."""
    return session.scalars(select(Wave).where(Wave.batch_id == batch_id)).one_or_none()


def lock_batch(session: Session, wave: Wave) -> Batch:
    """Return the batch of a wave. No worker pauses it until the transaction ends."""
    locked = {"key_share": True}
    return session.get_one(Batch, wave.batch_id, populate_existing=True, with_for_update=locked)


def _carry_on_wave(
    session: Session, plan: WavePlan, wave: Wave, following: Wave | None, now: datetime
) -> None:
    """Do what is due in the first wave that is not over."""
    batch = lock_batch(session, wave)
    if batch.state == BatchState.CANCELLED and wave.state in (WaveState.PLANNED, WaveState.WAITING):
        stop_waves(session, plan, wave, reason=BATCH_CANCELLED)
        return
    if wave.state == WaveState.PLANNED:
        change_wave(session, plan, wave, QUEUE)
    if wave.state == WaveState.WAITING:
        closes_at = closing_time(wave, now)
        # The first wave of a plan without a window is begun by a person, a later one by the one before it.
        if closes_at or (wave.time_window is None and wave.number > 1):
            begin_wave(session, plan, wave, batch, until=closes_at)
    elif wave.state in DECIDABLE:
        if batch.state not in _ENDED:
            change_wave(session, plan, wave, REOPEN)
        elif following and following.state == WaveState.PLANNED:
            change_wave(session, plan, following, QUEUE)
    if wave.state in (WaveState.RUNNING, WaveState.PAUSED):
        _follow_window(session, wave, batch, now)
        follow_batch(session, plan, wave, batch)


def begin_wave(session: Session, plan: WavePlan, wave: Wave, batch: Batch, *, until: datetime | None) -> None:
    """Let the batch of a wave run. It has no end if `until` is None."""
    change_wave(session, plan, wave, BEGIN)
    wave.began_at = clock.read_clock(session)
    let_run(session, batch, until)


def let_run(session: Session, batch: Batch, until: datetime | None) -> None:
    """Resume a locked batch until the end of its window. Raise BatchStateError if it is over."""
    if batch.state not in OPEN:
        change_batch(session, batch, RESUME)
    batch.runs_until = until


def closing_time(wave: Wave, now: datetime) -> datetime | None:
    """Return when the window of the wave closes, or None if it is closed now."""
    opening = find_opening(Window.from_dict(wave.time_window), now) if wave.time_window else None
    return opening.closes_at if opening else None


def follow_batch(session: Session, plan: WavePlan, wave: Wave, batch: Batch) -> None:
    """Bring a wave that has begun into the state that its batch is in."""
    if batch.state in _ENDED:
        change_wave(session, plan, wave, RECONCILE)
        wave.reconciled_to, wave.differing, wave.open = 0, None, None
    elif batch.state in OPEN:
        if wave.state == WaveState.PAUSED:
            change_wave(session, plan, wave, GO_ON)
    elif wave.state == WaveState.RUNNING:
        change_wave(session, plan, wave, PAUSE, reason=batch.reason)
    else:
        wave.reason = batch.reason


def _follow_window(session: Session, wave: Wave, batch: Batch, now: datetime) -> None:
    """Pause the batch of a wave outside its window, and let it go on within."""
    if wave.time_window is None:
        return
    closes_at = closing_time(wave, now)
    if batch.state in OPEN and closes_at is None:
        pause_by_window(session, batch.id)
        session.refresh(batch)
    elif batch.state in OPEN:
        batch.runs_until = closes_at
    elif batch.state == BatchState.PAUSED and batch.reason == WINDOW_CLOSED:
        _go_on_in_window(session, batch, closes_at)


def _go_on_in_window(session: Session, batch: Batch, closes_at: datetime | None) -> None:
    """Let a batch go on if its window is open. Without lines left it has nothing to do but to end."""
    if closes_at is None and _has_lines_left(session, batch):
        return
    since = batch.brake_since
    let_run(session, batch, closes_at or batch.runs_until)
    batch.brake_since = since  # nobody has looked at the errors
    complete_batches(session)
    session.refresh(batch)


def _has_lines_left(session: Session, batch: Batch) -> bool:
    left = exists().where(BatchChunk.batch_id == batch.id, BatchChunk.state != ChunkState.DONE)
    return bool(session.scalar(select(left)))
