"""What an undo of a wave's accounts means for its plan."""

from sqlalchemy.orm import Session

from migration_service.models import AccountImportProcess
from migration_service.services.batches.results.reverted import Reverted, count_reverted
from migration_service.services.waves.reading import list_waves
from migration_service.states import ImportState, UndoOutcome, WaveState
from support.factories import Customer
from unit.services.undo.undo_rows import add_pending
from unit.services.waves.wave_rows import add_to_wave, make_plan, make_wave, undo_wave

REVERTED, KEPT = UndoOutcome.REVERTED, UndoOutcome.KEPT


def test_reverted_accounts_are_counted_by_the_wave_that_created_them(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, WaveState.APPROVED, WaveState.STOPPED)
    first, second, third = list_waves(session, plan.id)
    one, two, three = add_pending(session, customer, "one", "two", "three")
    for wave, number, account in [(first, "one", "A-1"), (first, "two", "A-2"), (second, "three", "A-3")]:
        add_to_wave(session, wave, number, account)
    # What was created again later, by another wave, under another number.
    add_to_wave(session, third, "one", "A-9")
    undo_wave(session, customer, first, [(one, "A-1", REVERTED), (two, "A-2", KEPT)])
    undo_wave(session, customer, None, [(two, "A-2", REVERTED), (three, "A-3", REVERTED), (one, "A-9", KEPT)])
    _, foreign = make_wave(session, other, WaveState.APPROVED)
    undo_wave(session, other, foreign, [(-it, f"A-{it}", REVERTED) for it in (1, 2, 3)])
    session.get_one(AccountImportProcess, two).state = ImportState.IMPORTED  # created again since then
    session.flush()
    mine = {first.batch_id: Reverted(2, again=1), second.batch_id: Reverted(1)}
    theirs = {foreign.batch_id: Reverted(3)}
    own = [first.batch_id, second.batch_id, third.batch_id]
    assert count_reverted(session, own) == mine
    assert count_reverted(session, [foreign.batch_id]) == theirs
    assert count_reverted(session, [*own, foreign.batch_id]) == mine | theirs
