"""Judging waves whose lines all have an outcome, with a comparison that begins after the last of them."""

import time
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, bindparam, func, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.jobs import Progress
from migration_service.models import Comparison, Wave, WavePlan
from migration_service.schemas.events import EventType
from migration_service.services.emails.customer_emails import release_with_approval
from migration_service.services.events.recording import record
from migration_service.services.reconciliation.comparisons import do_piece, start_comparison
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.services.waves.states import FIND_CLEAN, FIND_DIFFERENCE, change_wave, is_over
from migration_service.states import WaveState


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
    change = FIND_CLEAN if verdict.is_clean else FIND_DIFFERENCE
    change_wave(session, plan, wave, change, details=found)
    # The other members of the events are those of the batch.
    subject = {"plan_id": plan.id, "number": wave.number, "batch_id": wave.batch_id}
    whose = {"organisation_id": plan.organisation_id, "import_supplier_id": plan.import_supplier_id}
    if wave.state == WaveState.DIFFERS:
        record(session, EventType.RECONCILIATION_DIFFERS, {**subject, **found}, **whose)
    if is_over(plan, wave):
        release_with_approval(session, wave.batch_id)
    else:
        record(session, EventType.WAVE_APPROVAL_REQUIRED, {**subject, "found": wave.state}, **whose)


_OLDEST_OF_EACH = text(f"""
    SELECT DISTINCT ON (organisation_id) batch_id
    FROM wave JOIN wave_plan ON wave_plan.id = plan_id
    WHERE state = '{WaveState.RECONCILING}' AND batch_id <> ALL (:left)
    ORDER BY organisation_id, plan_id, number
""").bindparams(bindparam("left", type_=ARRAY(Uuid)))
