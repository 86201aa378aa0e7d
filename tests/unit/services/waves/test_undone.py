"""What an undo of a wave's accounts means for its plan."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from migration_service.errors import WaveStateError
from migration_service.models import AccountImportProcess, Undo, Wave
from migration_service.services.batches.results.reverted import Reverted, count_reverted
from migration_service.services.batches.undo_guards import require_no_undo_of_plan
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.running import reconcile_undone
from migration_service.states import ImportState, UndoOutcome, WaveState
from support.factories import Customer
from unit.services.waves.wave_rows import EVENING, acts, add_line, add_pending, add_undo, make_plan, make_wave

REVERTED, KEPT = UndoOutcome.REVERTED, UndoOutcome.KEPT
LATER = EVENING + timedelta(seconds=1)


def test_while_an_undo_of_a_wave_runs_its_plan_holds(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, WaveState.WAITING)
    elsewhere = make_plan(session, other, WaveState.APPROVED)
    undo = add_undo(session, customer, list_waves(session, plan.id)[0])
    expected = f"^Undo {undo.id} of accounts of this plan runs. Wait until it is over, or cancel it.$"
    with pytest.raises(WaveStateError, match=expected):
        require_no_undo_of_plan(session, plan)
    require_no_undo_of_plan(session, elsewhere)
    undo.finished_at = EVENING
    session.flush()
    require_no_undo_of_plan(session, plan)


def _decided(session: Session, customer: Customer, state: WaveState) -> tuple[Wave, Callable[[], bool]]:
    """Make a plan with two waves, of which the first was reconciled in the evening.

    Return that wave, and a function that says whether it is reconciled again.
    """
    plan = make_plan(session, customer, state, WaveState.RUNNING)
    wave, _ = list_waves(session, plan.id)
    wave.reconciled_at = wave.decided_at = EVENING
    wave.reconciled_to, wave.differing, wave.open = 4, 0, 1
    wave.decided_by, wave.decision_reason = "ann", "known"

    def again() -> bool:
        reconcile_undone(session, plan, wave)
        session.flush()
        result = (wave.reconciled_to, wave.differing, wave.open)
        decision = (wave.decided_by, wave.decided_at, wave.decision_reason)
        if wave.state != "RECONCILING":
            assert (wave.state, result, decision) == (state, (4, 0, 1), ("ann", EVENING, "known"))
            assert acts(session) == []
            return False
        assert (result, decision) == ((0, None, None), (None, None, None))
        assert acts(session) == [("wave.undone", "1", {"batch_id": str(wave.batch_id)})]
        return True

    return wave, again


@pytest.mark.parametrize("state", [WaveState.CLEAN, WaveState.DIFFERS, WaveState.APPROVED])
def test_after_an_undo_a_wave_is_reconciled_again_and_its_approval_is_void(
    session: Session, customer: Customer, other: Customer, state: WaveState
) -> None:
    wave, again = _decided(session, customer, state)
    add_undo(session, other, None, finished_at=LATER)
    add_undo(session, other, make_wave(session, other, state)[1], finished_at=LATER)
    undo = add_undo(session, customer, wave)
    assert not again(), "it is not over"
    undo.finished_at = EVENING
    assert not again(), "the comparison came after it"
    undo.finished_at = LATER
    assert again()


@pytest.mark.parametrize("state", [WaveState.RUNNING, WaveState.STOPPED])
def test_a_wave_that_nobody_has_decided_about_goes_on_after_an_undo(
    session: Session, customer: Customer, state: WaveState
) -> None:
    wave, again = _decided(session, customer, state)
    add_undo(session, customer, wave, finished_at=LATER)
    assert not again()


def test_a_wave_that_was_not_compared_yet_has_nothing_to_compare_again(
    session: Session, customer: Customer
) -> None:
    plan, wave = make_wave(session, customer, WaveState.APPROVED)
    add_undo(session, customer, wave, finished_at=LATER)
    reconcile_undone(session, plan, wave)
    assert wave.state == "APPROVED"


def _named_undo(session: Session, customer: Customer, wave: Wave, fault: str | None) -> Undo:
    """Insert an undo of the named account 'one' of a wave, with one thing that is otherwise."""
    (process_id,) = add_pending(session, customer, "one")
    (another_id,) = add_pending(session, customer, "two")
    if fault == "a line of added data":
        add_line(session, wave, "one", "A-1", chunk_line=1)
    else:
        add_line(session, wave, "one", "A-1")
    line = {
        "another account": (another_id, "A-1", REVERTED),
        "an account that was created later": (process_id, "A-2", REVERTED),
        "it was kept": (process_id, "A-1", KEPT),
    }.get(fault or "", (process_id, "A-1", REVERTED))
    moment = EVENING if fault == "before the comparison" else LATER
    return add_undo(session, customer, None, [line], finished_at=moment)


@pytest.mark.parametrize(
    "fault",
    [
        None,
        "another account",
        "an account that was created later",
        "it was kept",
        "before the comparison",
        "a line of added data",
    ],
)
def test_an_undo_of_a_named_account_counts_for_the_wave_that_created_it(
    session: Session, customer: Customer, fault: str | None
) -> None:
    wave, again = _decided(session, customer, WaveState.APPROVED)
    _named_undo(session, customer, wave, fault)
    assert again() is (fault is None)


def test_a_named_account_of_another_wave_or_supplier_does_not_count(
    session: Session, customer: Customer, other: Customer
) -> None:
    wave, again = _decided(session, customer, WaveState.APPROVED)
    _, another = list_waves(session, wave.plan_id)
    _named_undo(session, customer, another, None)
    _, foreign = make_wave(session, other, WaveState.APPROVED)
    _named_undo(session, other, foreign, None)
    (process_id,) = add_pending(session, other, "three")
    add_line(session, wave, "three", "A-3")
    add_undo(session, other, None, [(process_id, "A-3", REVERTED)], finished_at=LATER)
    assert not again()


def test_reverted_accounts_are_counted_by_the_wave_that_created_them(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, WaveState.APPROVED, WaveState.STOPPED)
    first, second, third = list_waves(session, plan.id)
    one, two, three = add_pending(session, customer, "one", "two", "three")
    for wave, number, account in [(first, "one", "A-1"), (first, "two", "A-2"), (second, "three", "A-3")]:
        add_line(session, wave, number, account)
    # What was created again later, by another wave, under another number.
    add_line(session, third, "one", "A-9")
    add_undo(session, customer, first, [(one, "A-1", REVERTED), (two, "A-2", KEPT)])
    add_undo(session, customer, None, [(two, "A-2", REVERTED), (three, "A-3", REVERTED), (one, "A-9", KEPT)])
    _, foreign = make_wave(session, other, WaveState.APPROVED)
    add_undo(session, other, foreign, [(1, "A-1", REVERTED), (2, "A-2", REVERTED), (3, "A-3", REVERTED)])
    session.get_one(AccountImportProcess, two).state = ImportState.IMPORTED  # created again since then
    session.flush()
    mine = {first.batch_id: Reverted(2, again=1), second.batch_id: Reverted(1)}
    theirs = {foreign.batch_id: Reverted(3)}
    own = [first.batch_id, second.batch_id, third.batch_id]
    assert count_reverted(session, own) == mine
    assert count_reverted(session, [foreign.batch_id]) == theirs
    assert count_reverted(session, [*own, foreign.batch_id]) == mine | theirs
