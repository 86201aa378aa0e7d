"""Starting and cancelling an undo: which accounts it has, who may start it, and what it holds."""

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import (
    BatchNotFoundError,
    WavePlanNotFoundError,
)
from migration_service.models import ApiKey, Batch, Undo
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.operators import OperatorRole
from migration_service.services.setup.suppliers import create_import_supplier, get_import_supplier
from migration_service.services.undo.orders import UndoOrder, get_batch_to_undo, get_wave_to_undo
from migration_service.services.undo.starting import start_undo
from migration_service.services.waves.reading import list_waves
from migration_service.states import BatchState, UndoBlocker, WaveState
from support.audit import list_entries
from support.factories import Customer
from unit.services.batches.batch_rows import find_supplier, make_batch
from unit.services.undo.undo_rows import add_account, add_line
from unit.services.waves.wave_rows import make_plan


def _make_batch(session: Session, customer: Customer, **values: Any) -> Batch:
    given = {"mode": "stage", "source": "upload", "state": BatchState.COMPLETED} | values
    return make_batch(session, customer, **given)


def _order(session: Session, customer: Customer, *numbers: str, **values: Any) -> UndoOrder:
    given = {"reason": "because", "external_account_numbers": numbers} | values
    return UndoOrder(supplier=find_supplier(session, customer), **given)


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
    (entry,) = list_entries(session, action="undo.started")
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


def test_a_batch_and_a_wave_are_undone_by_their_own_supplier(
    session: Session, customer: Customer, other: Customer
) -> None:
    batch = _make_batch(session, customer)
    plan = make_plan(session, customer, WaveState.STOPPED, WaveState.STOPPED)
    own = find_supplier(session, customer)
    create_import_supplier(session, code=f"{own.code}2", organisation_name=customer.organisation)
    second = get_import_supplier(session, f"{own.code}2", organisation_id=None)
    assert get_batch_to_undo(session, str(batch.id), own) is batch
    wave = list_waves(session, plan.id)[1]
    assert get_wave_to_undo(session, str(plan.id), 2, own).id == wave.batch_id
    for supplier in (second, find_supplier(session, other)):
        with pytest.raises(BatchNotFoundError, match=str(batch.id)):
            get_batch_to_undo(session, str(batch.id), supplier)
        with pytest.raises(WavePlanNotFoundError, match=str(plan.id)):
            get_wave_to_undo(session, str(plan.id), 2, supplier)
