"""What is told to somebody who decides that a supplier goes live."""

from sqlalchemy.orm import Session

from migration_service.services.undo.open_work import OPEN_WORK, find_open_work
from migration_service.services.waves.reading import list_waves
from migration_service.states import BatchState, WaveState
from support.factories import Customer
from unit.services.batches.batch_rows import add_chunk, add_lines, make_batch
from unit.services.undo.undo_rows import MOMENT, add_account, add_pending, add_undo
from unit.services.waves.wave_rows import batch_of, make_plan


def test_everything_that_is_open_is_counted_and_nothing_of_others(
    session: Session, customer: Customer, other: Customer
) -> None:
    assert find_open_work(session, customer.import_supplier) == []
    add_pending(session, customer, "pending", "older", refused_at=MOMENT)
    for number in ("one", "two", "three", "four"):
        add_account(session, customer, number)
    plan = make_plan(session, customer, WaveState.CLEAN, WaveState.DIFFERS, WaveState.PLANNED)
    clean, differing, _ = list_waves(session, plan.id)
    for wave, differs, accounts in ((clean, 0, 1), (differing, 2, 2)):
        wave.reconciled_at, wave.differing, wave.open = MOMENT, differs, 0
        add_chunk(session, batch_of(session, wave), 1, counts={"IMPORTED": accounts})
    for state in (BatchState.RUNNING, BatchState.STOPPED, BatchState.COMPLETED):
        make_batch(session, customer, state=state)
    notes = make_batch(session, customer, mode="import", kind="notes", state=BatchState.COMPLETED)
    add_lines(session, notes, "FAILED", "ADDED")
    add_undo(session, customer)
    found = dict(find_open_work(session, customer.import_supplier))
    # The batch of the planned wave is PAUSED, too.
    assert [found.get(what, 0) for what in OPEN_WORK] == [2, 1, 2, 0, 0, 3, 0, 1, 2, 1, 4, 0]
    assert find_open_work(session, other.import_supplier) == []
