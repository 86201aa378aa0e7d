"""What a worker does with a piece of an undo, and with what somebody else holds."""

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import (
    ImportSupplier,
    Undo,
    UndoLine,
)
from migration_service.services.undo.execution import Progress, revert_piece, take_due_undos
from migration_service.states import UndoState
from support.factories import Customer, make_customer
from unit.services.batches.batch_rows import seconds
from unit.services.undo.undo_rows import MOMENT, add_account, add_undo


def _outcomes(session: Session, undo: Undo) -> list[str]:
    lines = select(UndoLine.outcome).where(UndoLine.undo_id == undo.id)
    return [*session.scalars(lines.order_by(UndoLine.position))]


def test_until_the_commit_the_supplier_does_not_go_live(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        undo = add_undo(session, customer, add_account(session, customer, "one"))
        session.commit()
        revert_piece(session, undo.id)
        supplier = select(ImportSupplier.id).where(ImportSupplier.id == undo.import_supplier_id)
        assert another.scalars(supplier.with_for_update(skip_locked=True, key_share=True)).all() == []


def test_undos_that_nobody_works_on_are_taken_once(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        late = func.clock_timestamp() - seconds(11)
        for state in (UndoState.COMPLETED, UndoState.CANCELLED):
            add_undo(session, customer, state=state, finished_at=MOMENT)
        others = [make_customer(sessions) for _ in range(3)]
        new, lost = add_undo(session, customer), add_undo(session, others[0], dispatched_at=late)
        add_undo(session, others[1], dispatched_at=func.clock_timestamp())
        held = add_undo(session, others[2])
        for owner in (customer, *others):
            add_undo(session, owner)  # it comes after the first one of its organisation
        session.commit()
        another.execute(select(Undo.id).where(Undo.id == held.id).with_for_update())
        assert set(take_due_undos(session)) == {new.id, lost.id}
        assert take_due_undos(session) == []
        another.rollback()
        assert take_due_undos(session) == [held.id]


def test_an_undo_that_was_cancelled_meanwhile_goes_no_further(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        undo = add_undo(session, customer, add_account(session, customer, "one"))
        session.commit()
        with sessions.begin() as another:
            another.execute(update(Undo).values(state=UndoState.CANCELLED, finished_at=func.now()))
        assert revert_piece(session, undo.id) is Progress.OVER
        assert _outcomes(session, undo) == ["PENDING"]


def test_two_workers_share_an_undo(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session, sessions() as another:
        undo = add_undo(session, customer, *(add_account(session, customer, number) for number in "ab"))
        session.commit()
        another.execute(select(UndoLine).where(UndoLine.position == 1).with_for_update())
        another.execute(select(Undo).with_for_update(key_share=True))
        assert revert_piece(session, undo.id) is Progress.WORKED
        assert _outcomes(session, undo) == ["PENDING", "REVERTED"]
