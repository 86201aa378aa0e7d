"""The sweep that advances plans, depending on the clock and the rows, under the lock of each plan.

Nothing is scheduled. If no sweep runs for a while, the next one finds the same work; two simultaneous sweeps
do it once. A late sweep starts a wave late in its window. It does not end a window late, because workers know
the end (`Batch.runs_until`) and check it before each piece of work.
"""

import logging
import time
from datetime import datetime
from itertools import zip_longest
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, bindparam, exists, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.jobs import Progress
from migration_service.errors import ServiceError
from migration_service.models import Batch, BatchChunk, Comparison, Wave, WavePlan
from migration_service.schemas.events import EventType
from migration_service.services.batches import clock
from migration_service.services.batches.states import OPEN, WINDOW_CLOSED, complete_batches, pause_for
from migration_service.services.batches.undo_guards import find_undo_of_plan
from migration_service.services.emails.customer_emails import release_with_approval
from migration_service.services.events.recording import record
from migration_service.services.reconciliation.comparisons import do_piece, start_comparison
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.services.waves import running, states
from migration_service.services.waves.reading import list_waves, lock_batch
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
        if not states.is_over(plan, wave):
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
        states.change_wave(session, plan, wave, states.QUEUE)
    if wave.state == WaveState.WAITING:
        closes_at = running.closing_time(wave, now)
        # Without a window, a person starts the first wave of a plan; later waves follow the previous one.
        if closes_at or (wave.time_window is None and wave.number > 1):
            running.run_wave(session, plan, wave, batch, until=closes_at)
    elif wave.state in states.DECIDABLE:
        if batch.state not in running.ENDED:
            states.change_wave(session, plan, wave, states.REOPEN)
        elif following and following.state == WaveState.PLANNED:
            states.change_wave(session, plan, following, states.QUEUE)
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


def reconcile_waves(sessions: sessionmaker[Session], *, seconds: float) -> None:
    """Reconcile waves for about `seconds`. The next sweep, and workers meanwhile, do the rest.

    Organisations take turns, with one piece of the oldest wave of each at a time.
    """
    until = time.monotonic() + seconds
    left: list[UUID] = []
    while True:
        with sessions.begin() as session:
            turns = session.scalars(_OLDEST_OF_EACH, {"left": left}).all()
        if not turns:
            return
        for batch_id in turns:
            if time.monotonic() >= until:
                return
            with sessions.begin() as session:
                if not reconcile_piece(session, batch_id):
                    left.append(batch_id)


def reconcile_piece(session: Session, batch_id: UUID) -> bool:
    """Compare some accounts of a wave, or judge it at the end. Return whether there is more to do now.

    At the end the wave is CLEAN or DIFFERS. Do nothing if another transaction holds the wave's lock.
    """
    due = select(Wave).where(Wave.batch_id == batch_id, Wave.state == WaveState.RECONCILING)
    wave = session.scalars(due.with_for_update(skip_locked=True)).one_or_none()
    if wave is None:
        return False
    plan = session.get_one(WavePlan, wave.plan_id)
    comparison = session.get(Comparison, wave.comparison_id) if wave.comparison_id else None
    if comparison is None:
        supplier = get_import_supplier_by_id(session, plan.import_supplier_id)
        comparison, is_new = start_comparison(session, supplier, batch_id)
        # One that began earlier may have read accounts before they were created.
        wave.comparison_id = comparison.id if is_new else None
    if comparison.finished_at is None:
        return do_piece(session, comparison.id) is not Progress.WAITS
    _settle(session, plan, wave)
    return False


def _settle(session: Session, plan: WavePlan, wave: Wave) -> None:
    verdict = judge(session, plan.import_supplier_id, wave.batch_id)
    wave.differing, wave.open = verdict.differing, verdict.sent.open
    wave.reconciled_at = func.now()
    found = {"differing": wave.differing, "open": wave.open}
    change = states.FIND_CLEAN if verdict.is_clean else states.FIND_DIFFERENCE
    states.change_wave(session, plan, wave, change, details=found)
    # The other members of the events are those of the batch.
    subject = {"plan_id": plan.id, "number": wave.number, "batch_id": wave.batch_id}
    whose = {"organisation_id": plan.organisation_id, "import_supplier_id": plan.import_supplier_id}
    if wave.state == WaveState.DIFFERS:
        record(session, EventType.RECONCILIATION_DIFFERS, {**subject, **found}, **whose)
    if states.is_over(plan, wave):
        release_with_approval(session, wave.batch_id)
    else:
        record(session, EventType.WAVE_APPROVAL_REQUIRED, {**subject, "found": wave.state}, **whose)


_OLDEST_OF_EACH = text(f"""
    SELECT DISTINCT ON (organisation_id) batch_id
    FROM wave JOIN wave_plan ON wave_plan.id = plan_id
    WHERE state = '{WaveState.RECONCILING}' AND batch_id <> ALL (:left)
    ORDER BY organisation_id, plan_id, number
""").bindparams(bindparam("left", type_=ARRAY(Uuid)))
