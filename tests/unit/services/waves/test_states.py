"""The table of the changes of a wave: every change from every state, and its entry in the audit."""

import pytest
from sqlalchemy.orm import Session

from migration_service.errors import WaveStateError
from migration_service.services.waves.states import CHANGES, WaveChange, change_wave, is_over
from migration_service.states import WaveState
from support.factories import Customer
from unit.services.waves.wave_rows import acts, make_wave


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.action.value)
def test_a_change_is_made_from_its_sources_and_refused_from_every_other_state(
    session: Session, customer: Customer, change: WaveChange
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PLANNED)
    for state in WaveState:
        wave.state, wave.reason = state, "before"
        if state not in change.sources:
            refusal = f"The wave is {state}. This is only possible if it is {' or '.join(change.sources)}."
            with pytest.raises(WaveStateError, match=f"^{refusal}$"):
                change_wave(session, plan, wave, change)
            expected: tuple[str, str | None] = (state, "before")
        else:
            change_wave(session, plan, wave, change)
            expected = (change.target, None)
        session.flush()
        assert (wave.state, wave.reason) == expected
    batch = {"batch_id": str(wave.batch_id)}
    assert acts(session) == [(change.action, "1", batch)] * len(change.sources)


@pytest.mark.parametrize(
    ("of_plan", "of_wave", "continues"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_the_next_wave_may_begin_after_a_decision_or_a_clean_wave_if_that_or_the_plan_says_so(
    session: Session, customer: Customer, *, of_plan: bool, of_wave: bool | None, continues: bool
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PLANNED, continue_if_clean=of_wave)
    plan.continue_if_clean = of_plan
    over = set()
    for state in WaveState:
        wave.state = state
        if is_over(plan, wave):
            over.add(state)
    clean = {WaveState.CLEAN} if continues else set()
    assert over == {WaveState.APPROVED, WaveState.STOPPED} | clean
