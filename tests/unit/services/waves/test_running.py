"""Stopping a wave and those after it: their batches, and the end of the plan."""

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.running import stop_waves
from migration_service.states import BatchState, WaveState
from support.factories import Customer
from unit.services.waves.wave_rows import acts, batch_of, make_plan, make_wave

CLEAN, RUNNING, PLANNED = WaveState.CLEAN, WaveState.RUNNING, WaveState.PLANNED


def test_a_wave_and_those_after_it_are_stopped_and_their_batches_cancelled(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = make_plan(session, customer, CLEAN, WaveState.DIFFERS, RUNNING, PLANNED)
    elsewhere = make_plan(session, other, CLEAN, RUNNING, PLANNED)
    waves = list_waves(session, plan.id)
    stop_waves(session, plan, waves[1], reason="enough", actor="ann")
    assert [it.state for it in list_waves(session, plan.id)] == ["CLEAN", *["STOPPED"] * 3]
    assert [batch_of(session, it).state for it in waves] == [*["COMPLETED"] * 2, *["CANCELLED"] * 2]
    assert [(it.decided_by, it.decision_reason) for it in waves] == [(None, None), *[("ann", "enough")] * 3]
    assert [isinstance(it.decided_at, datetime) for it in waves] == [False, True, True, True]
    because = [{"because": "enough", "batch_id": str(it.batch_id)} for it in waves]
    assert acts(session) == [("wave.stopped", str(number), because[number - 1]) for number in (2, 3, 4)]
    assert plan.finished_at is None, "nobody has decided about the first wave"
    others = list_waves(session, elsewhere.id)
    assert [it.state for it in others] == ["CLEAN", "RUNNING", "PLANNED"]
    assert [batch_of(session, it).state for it in others] == ["COMPLETED", "RUNNING", "PAUSED"]


def test_a_batch_that_another_session_has_completed_stays_completed(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        plan, wave = make_wave(session, customer, RUNNING)
        batch = batch_of(session, wave)
        session.commit()
        with sessions.begin() as another:
            another.execute(update(Batch).values(state=BatchState.COMPLETED))
        stop_waves(session, plan, wave, reason="enough")
        assert (wave.state, batch.state) == ("STOPPED", "COMPLETED")
