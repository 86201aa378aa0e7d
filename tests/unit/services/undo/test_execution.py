"""Undos: who starts them, what a worker does with a piece, how they are shown, and what go-live ends."""

from datetime import timedelta
from unittest.mock import patch

import msgspec
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors, models
from migration_service.db.jobs import Progress, take_due
from migration_service.formats import ResultFormat
from migration_service.services.batches.clock import read_clock
from migration_service.services.undo import reading
from migration_service.services.undo.execution import revert_piece
from migration_service.services.undo.go_live import Gate, GoLiveOrder, preview_go_live
from migration_service.services.undo.open_work import OPEN_WORK, find_open_work
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.reading import stream_outcomes
from migration_service.services.undo.starting import start_undo
from migration_service.services.waves.reading import list_waves
from migration_service.states import BatchState, UndoOutcome, UndoState, WaveState
from support.audit import list_entries
from support.factories import Customer, make_customer
from support.rows import add_chunk, find_supplier, make_batch, set_live
from unit.services.batches.batch_rows import add_lines, seconds
from unit.services.undo.undo_rows import MOMENT, add_account, add_line, add_pending, add_undo, add_undo_line
from unit.services.waves.wave_rows import batch_of, make_plan


def test_a_reference_to_the_batch_hinders_no_undo(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    """A chunk that is written refers to its batch, and so locks the key of the batch."""
    with sessions() as session, sessions() as another:
        batch = make_batch(session, customer, state=BatchState.PAUSED)
        add_account(session, customer, "a")
        add_line(session, batch.id, 1, "a")
        session.commit()
        another.execute(select(models.Batch.id).with_for_update(key_share=True, read=True))
        supplier = find_supplier(session, customer)
        assert start_undo(session, UndoOrder(supplier=supplier, batch=batch, reason="because"))


def _outcomes(session: Session, undo: models.Undo) -> list[str]:
    lines = select(models.UndoLine.outcome).where(models.UndoLine.undo_id == undo.id)
    return [*session.scalars(lines.order_by(models.UndoLine.position))]


def test_until_the_commit_the_supplier_does_not_go_live(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        undo = add_undo(session, customer, add_account(session, customer, "one"))
        session.commit()
        revert_piece(session, undo.id)
        supplier = select(models.ImportSupplier.id).where(models.ImportSupplier.id == undo.import_supplier_id)
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
        another.execute(select(models.Undo.id).where(models.Undo.id == held.id).with_for_update())
        assert set(take_due(session, "undo")) == {new.id, lost.id}
        assert take_due(session, "undo") == []
        another.rollback()
        assert take_due(session, "undo") == [held.id]


def test_an_undo_that_was_cancelled_meanwhile_goes_no_further(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        undo = add_undo(session, customer, add_account(session, customer, "one"))
        session.commit()
        with sessions.begin() as another:
            another.execute(update(models.Undo).values(state=UndoState.CANCELLED, finished_at=func.now()))
        assert revert_piece(session, undo.id) is Progress.OVER
        assert _outcomes(session, undo) == ["PENDING"]


def test_two_workers_share_an_undo(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session, sessions() as another:
        undo = add_undo(session, customer, *(add_account(session, customer, number) for number in "ab"))
        session.commit()
        another.execute(select(models.UndoLine).where(models.UndoLine.position == 1).with_for_update())
        another.execute(select(models.Undo).with_for_update(key_share=True))
        assert revert_piece(session, undo.id) is Progress.WORKED
        assert _outcomes(session, undo) == ["PENDING", "REVERTED"]


KEPT = UndoOutcome.KEPT


def test_outcomes_are_written_in_pieces_in_their_order(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        a, b = (add_account(session, customer, number).account_import_process_id for number in "ab")
        undo = add_undo(session, customer)
        reasons = ["account_busy", "account_erased"]
        add_undo_line(session, undo, 3, 2**31 - 1, "A-c", outcome=KEPT, reasons=["account_not_imported"])
        add_undo_line(session, undo, 2, b, "A-b", outcome=KEPT, reasons=reasons)
        add_undo_line(session, undo, 1, a, "A-a", outcome=UndoOutcome.REVERTED)
        add_undo_line(session, add_undo(session, customer), 1, a, "A-a")
    with patch.object(reading, "PAGE", 2), sessions.kw["bind"].connect() as connection:
        # The rows are in another order, and are not read in that of the index.
        for way in ("indexscan", "bitmapscan", "hashjoin", "mergejoin"):
            connection.execute(text(f"SET LOCAL enable_{way} = off"))
        within = sessionmaker(connection, join_transaction_mode="create_savepoint")
        pieces = [*stream_outcomes(within, undo.id, ResultFormat.NDJSON)]
    assert [len(piece.splitlines()) for piece in pieces] == [2, 1]
    lines = [msgspec.json.decode(line) for line in b"".join(pieces).splitlines()]
    fields = ("external_account_number", "service_account_number", "outcome", "reasons")
    assert [tuple(line[name] for name in fields) for line in lines] == [
        ("a", "A-a", "REVERTED", []),
        ("b", "A-b", "KEPT", ["account_busy", "account_erased"]),
        (None, "A-c", "KEPT", ["account_not_imported"]),
    ]


def test_a_date_that_has_not_come_can_be_moved(session: Session, customer: Customer) -> None:
    later = (read_clock(session) + timedelta(days=9)).replace(microsecond=0)
    assert set_live(session, customer.import_supplier, later) == later
    with pytest.raises(errors.GoLivePastError, match=r"2026-03-02T12:00:00Z.* is in the past"):
        set_live(session, customer.import_supplier, MOMENT)
    assert set_live(session, customer.import_supplier, MOMENT, may_be_past=True, by="Ada") == MOMENT
    with pytest.raises(errors.ImportSupplierLiveError, match=r"went live at 2026-03-02T12:00:00Z\."):
        set_live(session, customer.import_supplier, later)
    with pytest.raises(errors.ImportSupplierLiveError):
        preview_go_live(session, GoLiveOrder(supplier=find_supplier(session, customer), gate=Gate(hours=0)))
    entries = list_entries(session, action="import_supplier.live_set")
    written = f"{later:%Y-%m-%dT%H:%M:%SZ}"
    assert [it.details for it in entries] == [
        {"live_at": written, "before": None},
        {"live_at": "2026-03-02T12:00:00Z", "before": written, "by": "Ada"},
    ]
    assert {(it.subject_kind, it.subject, it.organisation_id) for it in entries} == {
        ("import_supplier", customer.import_supplier, customer.organisation_id)
    }


def test_the_supplier_is_locked_as_it_is_now(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session, sessions() as another:
        this = models.ImportSupplier.code == customer.import_supplier
        # What only refers to the supplier, as every new import does, hinders nobody.
        another.execute(
            select(models.ImportSupplier.id).where(this).with_for_update(key_share=True, read=True)
        )
        set_live(session, customer.import_supplier, read_clock(session) + timedelta(days=9))
        free = select(models.ImportSupplier.id).where(this).with_for_update(skip_locked=True, key_share=True)
        assert another.scalars(free).all() == []
        session.rollback()
        another.rollback()
        with sessions.begin() as operator:
            operator.execute(update(models.ImportSupplier).where(this).values(live_at=MOMENT))
        with pytest.raises(errors.ImportSupplierLiveError):
            set_live(session, customer.import_supplier)


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
    assert [found.get(what, 0) for what in OPEN_WORK] == [2, 1, 2, 0, 0, 3, 0, 1, 2, 1, 4, 0, 0, 0]
    assert find_open_work(session, other.import_supplier) == []
