"""What people do with waves: what is possible, and what becomes of the wave, its batch and the audit."""

from datetime import timedelta

import pytest
from sqlalchemy import func, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.models import AccountImportProcess, Batch
from migration_service.services.batches.results.reverted import Reverted, count_reverted
from migration_service.services.waves import states
from migration_service.services.waves.reading import list_waiting, list_waves
from migration_service.services.waves.running import stop_waves
from migration_service.services.waves.states import WaveChange, change_wave, is_over
from migration_service.states import BatchState, ImportState, UndoOutcome, WaveState
from support.factories import Customer
from unit.services.undo.undo_rows import add_pending
from unit.services.waves import wave_rows

#: Every possible change.
_CHANGES = [it for it in vars(states).values() if isinstance(it, WaveChange)]


@pytest.mark.parametrize("change", _CHANGES, ids=lambda change: change.action.value)
def test_a_change_is_made_from_its_sources_and_refused_from_every_other_state(
    session: Session, customer: Customer, change: WaveChange
) -> None:
    plan, wave = wave_rows.make_wave(session, customer, WaveState.PLANNED)
    for state in WaveState:
        wave.state, wave.reason = state, "before"
        if state not in change.sources:
            refusal = f"The wave is {state}. This is only possible if it is {' or '.join(change.sources)}."
            with pytest.raises(errors.WaveStateError, match=f"^{refusal}$"):
                change_wave(session, plan, wave, change)
            expected: tuple[str, str | None] = (state, "before")
        else:
            change_wave(session, plan, wave, change)
            expected = (change.target, None)
        session.flush()
        assert (wave.state, wave.reason) == expected
    batch = {"batch_id": str(wave.batch_id)}
    assert wave_rows.acts(session) == [(change.action, "1", batch)] * len(change.sources)


@pytest.mark.parametrize(
    ("of_plan", "of_wave", "continues"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_the_next_wave_may_begin_after_a_decision_or_a_clean_wave_if_that_or_the_plan_says_so(
    session: Session, customer: Customer, *, of_plan: bool, of_wave: bool | None, continues: bool
) -> None:
    plan, wave = wave_rows.make_wave(session, customer, WaveState.PLANNED, continue_if_clean=of_wave)
    plan.continue_if_clean = of_plan
    over = set()
    for state in WaveState:
        wave.state = state
        if is_over(plan, wave):
            over.add(state)
    clean = {WaveState.CLEAN} if continues else set()
    assert over == {WaveState.APPROVED, WaveState.STOPPED} | clean


CLEAN, RUNNING, PLANNED = WaveState.CLEAN, WaveState.RUNNING, WaveState.PLANNED


def test_a_batch_that_another_session_has_completed_stays_completed(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        plan, wave = wave_rows.make_wave(session, customer, RUNNING)
        batch = wave_rows.batch_of(session, wave)
        session.commit()
        with sessions.begin() as another:
            another.execute(update(Batch).values(state=BatchState.COMPLETED))
        stop_waves(session, plan, wave, reason="enough")
        assert (wave.state, batch.state) == ("STOPPED", "COMPLETED")


REVERTED, KEPT = UndoOutcome.REVERTED, UndoOutcome.KEPT


def test_reverted_accounts_are_counted_by_the_wave_that_created_them(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = wave_rows.make_plan(session, customer, WaveState.APPROVED, WaveState.APPROVED, WaveState.STOPPED)
    first, second, third = list_waves(session, plan.id)
    one, two, three = add_pending(session, customer, "one", "two", "three")
    for wave, number, account in [(first, "one", "A-1"), (first, "two", "A-2"), (second, "three", "A-3")]:
        wave_rows.add_to_wave(session, wave, number, account)
    # What was created again later, by another wave, under another number.
    wave_rows.add_to_wave(session, third, "one", "A-9")
    wave_rows.undo_wave(session, customer, first, [(one, "A-1", REVERTED), (two, "A-2", KEPT)])
    wave_rows.undo_wave(
        session, customer, None, [(two, "A-2", REVERTED), (three, "A-3", REVERTED), (one, "A-9", KEPT)]
    )
    _, foreign = wave_rows.make_wave(session, other, WaveState.APPROVED)
    wave_rows.undo_wave(session, other, foreign, [(-it, f"A-{it}", REVERTED) for it in (1, 2, 3)])
    session.get_one(AccountImportProcess, two).state = ImportState.IMPORTED  # created again since then
    session.flush()
    mine = {first.batch_id: Reverted(2, again=1), second.batch_id: Reverted(1)}
    theirs = {foreign.batch_id: Reverted(3)}
    own = [first.batch_id, second.batch_id, third.batch_id]
    assert count_reverted(session, own) == mine
    assert count_reverted(session, [foreign.batch_id]) == theirs
    assert count_reverted(session, [*own, foreign.batch_id]) == mine | theirs


_FOUND = (WaveState.CLEAN, WaveState.DIFFERS)


@pytest.mark.parametrize("of_plan", [True, False])
@pytest.mark.parametrize("of_wave", [None, True, False])
def test_reconciled_waves_wait_unless_they_are_over(
    session: Session, customer: Customer, *, of_plan: bool, of_wave: bool | None
) -> None:
    plan = wave_rows.make_plan(session, customer, *WaveState, continue_if_clean=of_plan)
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
    wave_rows.make_plan(session, customer, WaveState.CLEAN, WaveState.DIFFERS, finished_at=wave_rows.EVENING)
    assert list_waiting(session) == []
