"""Reconciling waves whose lines all have an outcome, page by page, so that a crash loses only one page."""

import time
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, bindparam, func, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Wave, WavePlan
from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record
from migration_service.services.reconciliation.created_accounts import compare_page
from migration_service.services.reconciliation.differences import Totals
from migration_service.services.reconciliation.submitted import count_submitted
from migration_service.services.waves.states import FIND_CLEAN, FIND_DIFFERENCE, change_wave, is_over
from migration_service.states import WaveState


def reconcile_waves(sessions: sessionmaker[Session], *, seconds: float) -> None:
    """Reconcile waves for about `seconds`. The next sweep does the rest.

    Organisations take turns, with one page of the oldest wave of each at a time.
    """
    until = time.monotonic() + seconds
    settled: list[UUID] = []
    while True:
        with sessions.begin() as session:
            turns = session.scalars(_OLDEST_OF_EACH, {"settled": settled}).all()
        if not turns:
            return
        for batch_id in turns:
            if time.monotonic() >= until:
                return
            with sessions.begin() as session:
                if not reconcile_page(session, batch_id):
                    settled.append(batch_id)


def reconcile_page(session: Session, batch_id: UUID) -> bool:
    """Compare the next accounts of a wave, and store the result and position. Return whether there are more.

    At the end the wave is CLEAN or DIFFERS. Do nothing if another transaction holds the wave's lock.
    """
    due = select(Wave).where(Wave.batch_id == batch_id, Wave.state == WaveState.RECONCILING)
    wave = session.scalars(due.with_for_update(skip_locked=True)).one_or_none()
    if wave is None:
        return False
    plan, totals = session.get_one(WavePlan, wave.plan_id), Totals()
    place, _ = compare_page(
        session, plan.import_supplier_id, totals, after=wave.reconciled_to, batch_id=wave.batch_id
    )
    if place is not None:
        wave.reconciled_to = place
        wave.differing = (wave.differing or 0) + totals.differing
        return True
    found_open = count_submitted(session, plan.import_supplier_id, batch_id=wave.batch_id).open
    wave.differing = wave.differing or 0
    wave.open = found_open
    wave.reconciled_at = func.now()
    change = FIND_DIFFERENCE if wave.differing or found_open else FIND_CLEAN
    change_wave(session, plan, wave, change, details={"differing": wave.differing, "open": found_open})
    _tell(session, plan, wave)
    return False


def _tell(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Record the events of a reconciled wave."""
    subject = {"plan_id": plan.id, "number": wave.number, "batch_id": wave.batch_id}
    whose = {"organisation_id": plan.organisation_id, "import_supplier_id": plan.import_supplier_id}
    if wave.state == WaveState.DIFFERS:
        found = {**subject, "differing": wave.differing, "open": wave.open}
        record(session, EventType.RECONCILIATION_DIFFERS, found, **whose)
    if not is_over(plan, wave):
        record(session, EventType.WAVE_APPROVAL_REQUIRED, {**subject, "found": wave.state}, **whose)


_OLDEST_OF_EACH = text(f"""
    SELECT DISTINCT ON (organisation_id) batch_id
    FROM wave JOIN wave_plan ON wave_plan.id = plan_id
    WHERE state = '{WaveState.RECONCILING}' AND batch_id <> ALL (:settled)
    ORDER BY organisation_id, plan_id, number
""").bindparams(bindparam("settled", type_=ARRAY(Uuid)))
