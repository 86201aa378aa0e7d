"""Starting and cancelling an undo: which accounts it has, who may start it, and what it holds."""

from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import (
    BatchNotFoundError,
    BatchStateError,
    ImportSupplierLiveError,
    NothingToUndoError,
    RequestFailedValidationError,
    UndoStateError,
    WavePlanNotFoundError,
    WaveStateError,
)
from migration_service.models import ApiKey, AuditEntry, Batch, ImportSupplier, Undo, UndoLine, WavePlan
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.operators import OperatorRole
from migration_service.services.setup.suppliers import create_import_supplier, get_import_supplier
from migration_service.services.undo.orders import UndoOrder, get_batch_to_undo, get_wave_to_undo
from migration_service.services.undo.starting import cancel_undo, start_undo
from migration_service.services.undo.states import complete_undo
from migration_service.services.waves.reading import list_waves
from migration_service.states import BatchState, UndoBlocker, UndoOutcome, UndoState, WaveState
from support.factories import Customer
from unit.services.batches.batch_rows import make_batch, without_indexes
from unit.services.undo.undo_rows import (
    MOMENT,
    add_account,
    add_line,
    add_undo,
    add_undo_line,
    find_supplier,
)
from unit.services.waves.wave_rows import acts, batch_of, make_plan


def _make_batch(session: Session, customer: Customer, **values: Any) -> Batch:
    given = {"mode": "stage", "source": "upload", "state": BatchState.COMPLETED} | values
    return make_batch(session, customer, **given)


def _order(session: Session, customer: Customer, *numbers: str, **values: Any) -> UndoOrder:
    given = {"reason": "because", "external_account_numbers": numbers} | values
    return UndoOrder(supplier=find_supplier(session, customer), **given)


def _lines(session: Session, undo_id: Any) -> list[tuple[int, int, str]]:
    lines = select(UndoLine).where(UndoLine.undo_id == undo_id).order_by(UndoLine.position)
    return [
        (it.position, it.account_import_process_id, it.service_account_number)
        for it in session.scalars(lines)
    ]


def test_an_undo_has_the_accounts_that_a_batch_has_created_and_that_still_exist(
    session: Session, customer: Customer, other: Customer
) -> None:
    batch, another = (_make_batch(session, customer) for _ in range(2))
    # The rows of the processes are in another order than the lines.
    b, a = (add_account(session, customer, number) for number in "ba")
    add_account(session, customer, "created again", "A-9")
    add_account(session, customer, "already there")
    add_account(session, other, "a", "A-8")
    add_line(session, batch.id, 5, "b")
    add_line(session, batch.id, 2, "a")
    add_line(session, batch.id, 3, "created again", service_account_number="A-1")
    add_line(session, batch.id, 4, "already there", status="ALREADY_IMPORTED")
    add_line(session, another.id, 1, "already there")
    without_indexes(session)
    undo_id = start_undo(session, _order(session, customer, batch=batch))
    assert _lines(session, undo_id) == [
        (1, a.account_import_process_id, "A-a"),
        (2, b.account_import_process_id, "A-b"),
    ]
    assert session.get_one(Undo, undo_id).accounts == 2
    with pytest.raises(NothingToUndoError):
        start_undo(session, _order(session, customer, batch=_make_batch(session, customer)))


def test_an_undo_has_the_accounts_that_were_named_each_once(
    session: Session, customer: Customer, other: Customer
) -> None:
    accounts = {number: add_account(session, customer, number) for number in "abcdefghij"}
    add_account(session, other, "a", "A-9")
    without_indexes(session)
    undo_id = start_undo(session, _order(session, customer, *"cadbcjhfig"))
    assert _lines(session, undo_id) == [
        (position, accounts[number].account_import_process_id, f"A-{number}")
        for position, number in enumerate("cadbjhfig", 1)
    ]
    assert session.get_one(Undo, undo_id).batch_id is None


def test_a_number_without_an_account_is_named(session: Session, customer: Customer, other: Customer) -> None:
    add_account(session, customer, "here")
    add_account(session, customer, "staged", state="PENDING")
    add_account(session, other, "elsewhere")
    with pytest.raises(RequestFailedValidationError) as raised:
        start_undo(session, _order(session, customer, "staged", "here", "elsewhere"))
    detail = "Account {!r} is not imported. Only an account that exists can be undone."
    assert [(it.code, it.detail, it.attr) for it in raised.value.errors] == [
        ("nothing_to_undo", detail.format("staged"), "external_account_numbers.0"),
        ("nothing_to_undo", detail.format("elsewhere"), "external_account_numbers.2"),
    ]
    assert raised.value.detail == detail.format("staged")


def test_who_started_an_undo_why_and_how_is_kept_and_in_the_audit(
    session: Session, customer: Customer
) -> None:
    add_account(session, customer, "a")
    supplier = find_supplier(session, customer)
    key_id = session.scalars(select(ApiKey.id).where(ApiKey.prefix == customer.prefix)).one()
    overrides = frozenset({UndoBlocker.EMAIL_SENT, UndoBlocker.DATA_ADDED})
    origin = Origin(
        kind=ActorKind.OPERATOR, actor="ann", api_key_id=key_id, request_id="r1", address="192.0.2.1"
    )
    with acting_as(origin):
        order = _order(session, customer, "a", overrides=overrides, by="ben")
        undo = session.get_one(Undo, start_undo(session, order, role=OperatorRole.ADMINISTER))
    session.flush()
    session.refresh(undo)
    assert (undo.organisation_id, undo.import_supplier_id) == (supplier.organisation_id, supplier.id)
    assert (undo.reason, undo.state, undo.accounts, undo.finished_at) == ("because", "RUNNING", 1, None)
    assert (undo.started_by, undo.api_key_id, undo.request_id, undo.address) == (
        *("ben", key_id, "r1"),
        "192.0.2.1",
    )
    assert undo.overrides == ["data_added_later", "email_sent"]
    entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "undo.started")).one()
    assert (entry.subject_kind, entry.subject, entry.organisation_id) == (
        *("undo", str(undo.id)),
        supplier.organisation_id,
    )
    assert entry.details == {
        "import_supplier": customer.import_supplier,
        "batch_id": None,
        "accounts": 1,
        "reason": "because",
        "overrides": undo.overrides,
        "by": "ben",
    }
    assert entry.actor == "ann"


def test_after_go_live_nothing_is_undone(session: Session, customer: Customer, other: Customer) -> None:
    add_account(session, customer, "a")

    def go_live(of: Customer, at: Any) -> None:
        supplier = ImportSupplier.id == find_supplier(session, of).id
        session.execute(update(ImportSupplier).where(supplier).values(live_at=at))

    go_live(other, MOMENT)
    go_live(customer, func.now() + func.make_interval(1))
    assert start_undo(session, _order(session, customer, "a"))
    go_live(customer, MOMENT)
    with pytest.raises(ImportSupplierLiveError):
        start_undo(session, _order(session, customer, "a"))


def test_to_find_the_accounts_may_take_ten_minutes(session: Session, customer: Customer) -> None:
    add_account(session, customer, "a")
    start_undo(session, _order(session, customer, "a"))
    assert session.scalar(text("SHOW statement_timeout")) == "10min"


def test_the_batch_is_locked_and_must_not_have_been_resumed_since_it_was_read(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        batch = _make_batch(session, customer, state=BatchState.PAUSED)
        add_account(session, customer, "a")
        add_line(session, batch.id, 1, "a")
        session.commit()
        assert get_batch_to_undo(session, str(batch.id), find_supplier(session, customer)) is batch
        _set_state(sessions, BatchState.RUNNING)
        with pytest.raises(BatchStateError, match="The batch is RUNNING"):
            start_undo(session, _order(session, customer, batch=batch))
        session.rollback()
        _set_state(sessions, BatchState.PAUSED)
        assert start_undo(session, _order(session, customer, batch=batch))
        with sessions() as another:
            row = select(Batch.id)
            free = row.with_for_update(skip_locked=True, key_share=True)
            assert another.scalars(free).all() == []


def _set_state(sessions: sessionmaker[Session], state: BatchState) -> None:
    with sessions.begin() as session:
        session.execute(update(Batch).values(state=state))


def test_a_reference_to_the_batch_hinders_no_undo(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    """A chunk that is written refers to its batch, and so locks the key of the batch."""
    with sessions() as session, sessions() as another:
        batch = _make_batch(session, customer, state=BatchState.PAUSED)
        add_account(session, customer, "a")
        add_line(session, batch.id, 1, "a")
        session.commit()
        another.execute(select(Batch.id).with_for_update(key_share=True, read=True))
        assert start_undo(session, _order(session, customer, batch=batch))


def test_a_batch_is_undone_by_its_own_supplier(session: Session, customer: Customer, other: Customer) -> None:
    batch = _make_batch(session, customer)
    own = find_supplier(session, customer)
    create_import_supplier(session, code=f"{own.code}2", organisation_name=customer.organisation)
    second = get_import_supplier(session, f"{own.code}2", organisation_id=None)
    assert get_batch_to_undo(session, str(batch.id), own) is batch
    for supplier in (second, find_supplier(session, other)):
        with pytest.raises(BatchNotFoundError, match=str(batch.id)):
            get_batch_to_undo(session, str(batch.id), supplier)


def test_a_wave_is_undone_by_its_own_supplier(session: Session, customer: Customer, other: Customer) -> None:
    plan = make_plan(session, customer, WaveState.STOPPED, WaveState.STOPPED)
    own = find_supplier(session, customer)
    create_import_supplier(session, code=f"{own.code}2", organisation_name=customer.organisation)
    second = get_import_supplier(session, f"{own.code}2", organisation_id=None)
    wave = list_waves(session, plan.id)[1]
    assert get_wave_to_undo(session, str(plan.id), 2, own).id == wave.batch_id
    for supplier in (second, find_supplier(session, other)):
        with pytest.raises(WavePlanNotFoundError, match=str(plan.id)):
            get_wave_to_undo(session, str(plan.id), 2, supplier)


@pytest.mark.parametrize(
    ("values", "detail"),
    [
        ({"state": BatchState.RUNNING}, "The batch is RUNNING. Pause or cancel it before you undo it."),
        ({"state": BatchState.WAITING}, "The batch is WAITING. Pause or cancel it before you undo it."),
        ({"kind": "notes", "mode": "import"}, "The batch is of kind notes. Only batches of accounts"),
    ],
)
def test_what_creates_accounts_or_has_none_is_not_undone(
    session: Session, customer: Customer, values: dict[str, Any], detail: str
) -> None:
    batch = _make_batch(session, customer, **values)
    with pytest.raises(BatchStateError, match=detail):
        get_batch_to_undo(session, str(batch.id), find_supplier(session, customer))


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        (WaveState.RECONCILING, "Wave 2 of the plan is being reconciled. Wait until it is."),
        (WaveState.RUNNING, "Wave 2 of the plan runs. Pause or stop it before you undo a wave."),
    ],
)
def test_a_wave_is_not_undone_while_its_plan_is_at_work(
    session: Session, customer: Customer, state: WaveState, detail: str
) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, state)
    batch = batch_of(session, list_waves(session, plan.id)[0])
    with pytest.raises(WaveStateError, match=detail):
        get_batch_to_undo(session, str(batch.id), find_supplier(session, customer))
    with pytest.raises(WaveStateError, match=detail):
        start_undo(session, _order(session, customer, batch=batch))


def test_the_plan_of_a_wave_is_locked_and_must_not_have_begun_to_work_since_it_was_read(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        plan = make_plan(session, customer, WaveState.APPROVED, WaveState.PAUSED)
        batch, later = (batch_of(session, wave) for wave in list_waves(session, plan.id))
        add_account(session, customer, "a")
        add_line(session, batch.id, 1, "a")
        session.commit()
        order = _order(
            session,
            customer,
            batch=get_batch_to_undo(session, str(batch.id), find_supplier(session, customer)),
        )
        for state in (BatchState.RUNNING, BatchState.PAUSED):
            with sessions.begin() as person:
                person.execute(update(Batch).where(Batch.id == later.id).values(state=state))
            # What only refers to the plan hinders nobody.
            another.execute(select(WavePlan.id).with_for_update(key_share=True, read=True))
            if state is BatchState.RUNNING:
                with pytest.raises(WaveStateError, match=r"Wave 2 of the plan runs"):
                    start_undo(session, order)
                session.rollback()
        assert start_undo(session, order)
        another.rollback()
        free = select(WavePlan.id).with_for_update(skip_locked=True, key_share=True)
        assert another.scalars(free).all() == []


@pytest.mark.parametrize("state", [WaveState.RUNNING, WaveState.PAUSED])
@pytest.mark.parametrize("reason", ["window_closed", None])
def test_a_wave_that_is_undone_between_two_windows_waits_for_a_person(
    session: Session, customer: Customer, state: WaveState, reason: str | None
) -> None:
    plan = make_plan(session, customer, state)
    (wave,) = list_waves(session, plan.id)
    wave.reason = reason if state is WaveState.PAUSED else None
    batch = batch_of(session, wave, state=BatchState.PAUSED, reason=reason)
    add_account(session, customer, "a")
    add_line(session, batch.id, 1, "a")
    assert start_undo(session, _order(session, customer, batch=batch))
    session.flush()
    session.refresh(batch)
    assert (batch.state, batch.reason, wave.reason) == ("PAUSED", None, None)
    assert wave.state == ("PAUSED" if reason else state)
    told = {"RUNNING": ["wave.paused"] * 2, "PAUSED": ["wave.paused"]}[state] if reason else []
    assert [action for action, _, _ in acts(session)] == told


def test_an_undo_is_cancelled_once(session: Session, customer: Customer) -> None:
    undo = add_undo(session, customer)
    cancel_undo(session, undo)
    session.flush()
    assert (undo.state, isinstance(undo.finished_at, datetime)) == ("CANCELLED", True)
    entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "undo.cancelled")).one()
    assert (entry.subject_kind, entry.subject) == ("undo", str(undo.id))
    assert entry.organisation_id == customer.organisation_id
    with pytest.raises(UndoStateError, match="The undo is CANCELLED"):
        cancel_undo(session, undo)


def test_an_undo_that_is_over_meanwhile_is_not_cancelled_and_one_that_is_cancelled_is_locked(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        over, running = add_undo(session, customer), add_undo(session, customer)
        session.commit()
        with sessions.begin() as worker:
            assert complete_undo(worker, over.id)
        with pytest.raises(UndoStateError, match="The undo is COMPLETED"):
            cancel_undo(session, over)
        session.rollback()
        cancel_undo(session, running)
        free = select(Undo.id).with_for_update(skip_locked=True)
        assert another.scalars(free).all() == [over.id]


def test_an_undo_is_complete_once_every_account_has_an_outcome(
    session: Session, customer: Customer, other: Customer
) -> None:
    elsewhere = add_undo(session, other, add_account(session, other, "a"))
    undo = add_undo(session, customer)
    add_undo_line(session, undo, 1, 1, "A-1", outcome=UndoOutcome.KEPT)
    add_undo_line(session, undo, 2, 2, "A-2")
    assert not complete_undo(session, undo.id)
    session.execute(update(UndoLine).where(UndoLine.undo_id == undo.id).values(outcome=UndoOutcome.REVERTED))
    assert not complete_undo(session, elsewhere.id)
    assert complete_undo(session, undo.id)
    session.refresh(undo)
    session.refresh(elsewhere)
    assert [(it.state, it.finished_at is not None) for it in (undo, elsewhere)] == [
        ("COMPLETED", True),
        ("RUNNING", False),
    ]
    cancelled = add_undo(session, customer, state=UndoState.CANCELLED, finished_at=MOMENT)
    empty = add_undo(session, customer)
    assert complete_undo(session, cancelled.id)
    session.refresh(cancelled)
    session.refresh(empty)
    assert (cancelled.state, cancelled.finished_at) == ("CANCELLED", MOMENT)
    assert empty.state == "RUNNING", "nobody asked"
