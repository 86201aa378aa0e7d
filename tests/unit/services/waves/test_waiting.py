"""Which waves wait for a person to decide: those that are reconciled and not over, of plans that are open."""

from datetime import timedelta

import pytest
from sqlalchemy import func
from sqlalchemy.orm import Session

from migration_service.services.waves.reading import list_waiting, list_waves
from migration_service.services.waves.states import is_over
from migration_service.states import WaveState
from support.factories import Customer
from unit.services.waves.wave_rows import EVENING, make_plan

_FOUND = (WaveState.CLEAN, WaveState.DIFFERS)


@pytest.mark.parametrize("of_plan", [True, False])
@pytest.mark.parametrize("of_wave", [None, True, False])
def test_reconciled_waves_wait_unless_they_are_over(
    session: Session, customer: Customer, *, of_plan: bool, of_wave: bool | None
) -> None:
    plan = make_plan(session, customer, *WaveState, continue_if_clean=of_plan)
    expected: list[tuple[int, str, int]] = []
    for wave in list_waves(session, plan.id):
        wave.continue_if_clean = of_wave
        wave.reconciled_at = func.now() - timedelta(seconds=wave.number)
        if wave.state in _FOUND and not is_over(plan, wave):
            expected.insert(0, (wave.number, customer.import_supplier, wave.number))
    session.flush()
    found = list_waiting(session)
    assert [(it.wave.number, it.import_supplier, round(it.seconds)) for it in found] == expected


def test_a_wave_of_a_finished_plan_waits_for_nobody(session: Session, customer: Customer) -> None:
    make_plan(session, customer, WaveState.CLEAN, WaveState.DIFFERS, finished_at=EVENING)
    assert list_waiting(session) == []
