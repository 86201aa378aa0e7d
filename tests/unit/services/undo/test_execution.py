"""What a worker does with a piece of an undo, and with what somebody else holds."""

from datetime import datetime
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import func, null, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.models import (
    Account,
    AccountImportProcess,
    CustomerEmail,
    ImportSupplier,
    RetiredAccountNumber,
    Undo,
    UndoLine,
)
from migration_service.services.undo import execution
from migration_service.services.undo.execution import MAX_TRIES, Progress, revert_piece, take_due_undos
from migration_service.states import UndoState
from support.factories import Customer, make_customer
from unit.services.batches.batch_rows import seconds
from unit.services.undo.undo_rows import MOMENT, add_account, add_email, add_undo, add_undo_line, outcomes

REVERTED: tuple[str, None, bool] = ("REVERTED", None, True)
PENDING: tuple[str, None, bool] = ("PENDING", None, False)
BUSY = ("KEPT", ["account_busy"], True)


def _accounts(session: Session) -> set[str]:
    return set(session.scalars(select(Account.external_account_number)))


def test_accounts_are_reverted_and_then_the_undo_is_completed(
    session: Session, customer: Customer, other: Customer
) -> None:
    first, second = (add_account(session, customer, number) for number in ("one", "two"))
    kept = add_account(session, customer, "three", payload=null())
    bystander = add_account(session, other, "one", "A-9")
    elsewhere = add_undo(session, other, bystander)
    undo = add_undo(session, customer, first, second, kept)
    assert revert_piece(session, undo.id) is Progress.WORKED
    assert outcomes(session, undo) == [REVERTED, REVERTED, ("KEPT", ["payload_removed"], True)]
    assert _accounts(session) == {"one", "three"}
    assert set(session.scalars(select(RetiredAccountNumber.service_account_number))) == {"A-one", "A-two"}
    processes = select(AccountImportProcess).order_by(AccountImportProcess.id)
    states = [
        (it.state, it.service_account_number)
        for it in session.scalars(processes.execution_options(populate_existing=True))
    ]
    assert states == [("PENDING", None)] * 2 + [("IMPORTED", "A-three"), ("IMPORTED", "A-9")]
    session.refresh(undo)
    session.refresh(elsewhere)
    assert (undo.state, undo.finished_at) == ("RUNNING", None)
    assert isinstance(undo.dispatched_at, datetime)
    assert (elsewhere.dispatched_at, outcomes(session, elsewhere)) == (None, [PENDING])
    assert revert_piece(session, undo.id) is Progress.OVER
    session.refresh(undo)
    session.refresh(elsewhere)
    assert (undo.state, undo.finished_at is not None) == ("COMPLETED", True)
    assert (elsewhere.state, elsewhere.finished_at) == ("RUNNING", None)
    assert revert_piece(session, new_id()) is Progress.OVER


def test_accounts_are_reverted_piece_by_piece_in_their_order(session: Session, customer: Customer) -> None:
    undo = add_undo(session, customer, *(add_account(session, customer, number) for number in "abc"))
    with patch.object(execution, "PIECE", 2):
        assert revert_piece(session, undo.id) is Progress.WORKED
        assert outcomes(session, undo) == [REVERTED, REVERTED, PENDING]
        assert revert_piece(session, undo.id) is Progress.WORKED
    assert _accounts(session) == set()


def test_what_does_not_exist_any_more_is_kept(session: Session, customer: Customer) -> None:
    recreated = add_account(session, customer, "one", "A-2")
    pending = add_account(session, customer, "two", state="PENDING")
    session.delete(pending)
    undo = add_undo(session, customer)
    for position, (process_id, number) in enumerate(
        [
            (recreated.account_import_process_id, "A-1"),
            (pending.account_import_process_id, "A-two"),
            (2**31 - 1, "A-3"),
        ],
        1,
    ):
        add_undo_line(session, undo, position, process_id, number)
    assert revert_piece(session, undo.id) is Progress.WORKED
    assert outcomes(session, undo) == [("KEPT", ["account_not_imported"], True)] * 3
    assert _accounts(session) == {"one"}


def test_an_undo_that_was_cancelled_meanwhile_goes_no_further(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        undo = add_undo(session, customer, add_account(session, customer, "one"))
        session.commit()
        with sessions.begin() as another:
            another.execute(update(Undo).values(state=UndoState.CANCELLED, finished_at=func.now()))
        assert revert_piece(session, undo.id) is Progress.OVER
        assert outcomes(session, undo) == [PENDING]


def test_until_the_commit_the_supplier_does_not_go_live(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        undo = add_undo(session, customer, add_account(session, customer, "one"))
        session.commit()
        revert_piece(session, undo.id)
        supplier = select(ImportSupplier.id).where(ImportSupplier.id == undo.import_supplier_id)
        assert another.scalars(supplier.with_for_update(skip_locked=True, key_share=True)).all() == []


@pytest.mark.parametrize(
    "held",
    [
        select(AccountImportProcess.id).where(AccountImportProcess.external_account_number == "one"),
        select(Account.id).where(Account.external_account_number == "one"),
        select(CustomerEmail.id).where(CustomerEmail.error == "one"),
    ],
    ids=["process", "account", "e-mail"],
)
def test_what_somebody_else_holds_is_tried_again_later(
    sessions: sessionmaker[Session], customer: Customer, held: Any
) -> None:
    with sessions() as session, sessions() as another:
        accounts = {number: add_account(session, customer, number) for number in ("one", "two", "three")}
        for number, account in accounts.items():
            add_email(session, account, error=number)
        undo = add_undo(session, customer, accounts["one"], accounts["two"])
        elsewhere = add_undo(session, customer, accounts["three"])
        session.commit()
        assert len(another.execute(held.with_for_update()).all()) == 1
        assert revert_piece(session, undo.id) is Progress.WORKED
        assert outcomes(session, undo) == [PENDING, REVERTED]
        assert _tries(session, undo) == [(1, True), (0, False)]
        assert (outcomes(session, elsewhere), _tries(session, elsewhere)) == ([PENDING], [(0, False)])
        free = select(CustomerEmail.error).with_for_update(skip_locked=True)
        assert "three" in another.scalars(free).all(), "only the e-mails of the undo's accounts are locked"
        assert revert_piece(session, undo.id) is Progress.WAITS
        another.rollback()
        session.execute(update(UndoLine).values(tried_at=func.clock_timestamp() - seconds(6)))
        assert revert_piece(session, undo.id) is Progress.WORKED
        assert outcomes(session, undo) == [REVERTED, REVERTED]


def _tries(session: Session, undo: Undo) -> list[tuple[int, bool]]:
    lines = select(UndoLine).where(UndoLine.undo_id == undo.id).order_by(UndoLine.position)
    return [(it.tries, it.tried_at is not None) for it in session.scalars(lines)]


def test_after_twelve_tries_an_account_is_kept(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session, sessions() as another:
        accounts = [add_account(session, customer, number) for number in ("one", "two")]
        undo = add_undo(session, customer, *accounts)
        for position, tries in ((1, MAX_TRIES - 2), (2, MAX_TRIES - 1)):
            session.execute(update(UndoLine).where(UndoLine.position == position).values(tries=tries))
        session.commit()
        another.execute(select(Account.id).with_for_update())
        assert revert_piece(session, undo.id) is Progress.WORKED
        assert outcomes(session, undo) == [PENDING, BUSY]
        assert _tries(session, undo) == [(MAX_TRIES - 1, True), (MAX_TRIES, True)]


def test_two_workers_share_an_undo(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session, sessions() as another:
        undo = add_undo(session, customer, *(add_account(session, customer, number) for number in "ab"))
        session.commit()
        another.execute(select(UndoLine).where(UndoLine.position == 1).with_for_update())
        another.execute(select(Undo).with_for_update())
        assert revert_piece(session, undo.id) is Progress.WORKED
        assert outcomes(session, undo) == [PENDING, REVERTED]


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
