"""Waves and their batches are read as they are now, whatever a session has read before, and locked."""

from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch, Wave, WavePlan
from migration_service.services.waves.reading import list_waves, lock_batch, lock_wave
from migration_service.states import WaveState
from support.factories import Customer
from unit.services.waves.wave_rows import batch_of, make_wave

PLANNED, RUNNING = WaveState.PLANNED, WaveState.RUNNING


def test_waves_are_listed_as_they_are_now(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session:
        plan, wave = make_wave(session, customer, PLANNED)
        session.commit()
        with sessions.begin() as another:
            another.execute(update(Wave).values(name="changed"))
        assert list_waves(session, plan.id) == [wave]
        assert wave.name == "changed"


def test_the_batch_of_a_wave_is_locked_as_it_is_now(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        _, wave = make_wave(session, customer, RUNNING)
        batch = batch_of(session, wave)
        session.commit()
        with sessions.begin() as another:
            another.execute(update(Batch).values(name="changed"))
        assert lock_batch(session, wave) is batch
        assert batch.name == "changed"
        with sessions() as another:
            row = select(Batch.id)
            free = row.with_for_update(skip_locked=True, key_share=True)
            assert another.scalars(free).all() == []
            to_refer_to = row.with_for_update(skip_locked=True, key_share=True, read=True)
            assert another.scalars(to_refer_to).all() == [batch.id]


def test_a_wave_is_locked_with_its_plan_and_both_are_as_they_are_now(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        plan, wave = make_wave(session, customer, WaveState.WAITING)
        session.commit()
        with sessions.begin() as another:
            another.execute(update(WavePlan).values(name="the plan"))
            another.execute(update(Wave).values(name="the wave"))
        assert lock_wave(session, plan, 1) is wave
        assert (plan.name, wave.name) == ("the plan", "the wave")
        with sessions() as another:
            row = select(WavePlan.id)
            free = row.with_for_update(skip_locked=True, key_share=True)
            assert another.scalars(free).all() == []
            to_refer_to = row.with_for_update(skip_locked=True, key_share=True, read=True)
            assert another.scalars(to_refer_to).all() == [plan.id]
