"""Rows of plans, waves and undos, as tests need them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import (
    AccountImportProcess,
    AuditEntry,
    Batch,
    BatchLine,
    Undo,
    UndoLine,
    Wave,
    WavePlan,
)
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.services.waves.reading import list_waves
from migration_service.states import BatchState, UndoOutcome, WaveState
from support.factories import Customer
from unit.services.batches.batch_rows import make_batch

EVENING = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 3, tzinfo=UTC)
#: A window that is open in the evening, and one that is not.
OPEN_NOW = {
    "start": "22:00",
    "end": "00:00",
    "time_zone": "UTC",
    "first_day": "2026-03-01",
    "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
}
CLOSED_NOW = OPEN_NOW | {"start": "06:00", "end": "08:00"}

_USUAL = {
    WaveState.RUNNING: BatchState.RUNNING,
    WaveState.STOPPED: BatchState.CANCELLED,
    **dict.fromkeys([WaveState.PLANNED, WaveState.WAITING, WaveState.PAUSED], BatchState.PAUSED),
}


def find_supplier(session: Session, customer: Customer) -> KnownSupplier:
    """Return the customer's supplier."""
    return get_import_supplier(session, customer.import_supplier, organisation_id=None)


def make_plan(session: Session, customer: Customer, *states: WaveState, **values: Any) -> WavePlan:
    """Insert a plan whose waves are in these states. Their batches are in the usual ones, without lines."""
    team = get_operations_team_id(session, customer.organisation_id, customer.operations_team)
    plan = WavePlan(
        id=new_id(),
        organisation_id=customer.organisation_id,
        import_supplier_id=find_supplier(session, customer).id,
        operations_team_id=team,
        **{"seed": 1, "continue_if_clean": False} | values,
    )
    session.add(plan)
    session.flush()
    # The last one first, so that only who orders them gets them in their order.
    for number, state in reversed([*enumerate(states, 1)]):
        batch_state = _USUAL.get(state, BatchState.COMPLETED)
        batch = make_batch(
            session, customer, mode="import", source="pending", operations_team_id=team, state=batch_state
        )
        session.add(Wave(plan_id=plan.id, number=number, batch_id=batch.id, state=state))
        session.flush()
    session.refresh(plan)
    return plan


def make_wave(session: Session, customer: Customer, state: WaveState, **values: Any) -> tuple[WavePlan, Wave]:
    """Insert a plan with one wave, with these values. Return both."""
    plan = make_plan(session, customer, state)
    (wave,) = list_waves(session, plan.id)
    for name, value in values.items():
        setattr(wave, name, value)
    session.flush()
    return plan, wave


def batch_of(session: Session, wave: Wave, **values: Any) -> Batch:
    """Return the batch of a wave, after these changes."""
    session.flush()
    batch = session.get_one(Batch, wave.batch_id, populate_existing=True)
    for name, value in values.items():
        setattr(batch, name, value)
    session.flush()
    return batch


def acts(session: Session) -> list[tuple[str, str, Mapping[str, Any] | None]]:
    """Return what the audit tells of waves: the act, the number of the wave, and the details."""
    session.flush()
    entries = select(AuditEntry).where(AuditEntry.subject_kind == "wave").order_by(AuditEntry.id)
    return [(it.action, str(it.subject).split()[-1], it.details) for it in session.scalars(entries)]


def add_pending(session: Session, customer: Customer, *numbers: str, **values: Any) -> list[int]:
    """Insert staged accounts. Return the ids of their import processes."""
    supplier = find_supplier(session, customer)
    given = {"payload": {}, "payload_sha256": b"", "rules_version": "1", "profile": "lenient"} | values
    processes = [
        AccountImportProcess(import_supplier_id=supplier.id, external_account_number=number, **given)
        for number in numbers
    ]
    session.add_all(processes)
    session.flush()
    return [process.id for process in processes]


def add_undo(
    session: Session,
    customer: Customer,
    wave: Wave | None,
    lines: Sequence[tuple[int, str, UndoOutcome]] = (),
    **values: Any,
) -> Undo:
    """Insert an undo of a wave's accounts, or of named ones. A line is a process, a number and an outcome."""
    undo = Undo(
        id=new_id(),
        organisation_id=customer.organisation_id,
        import_supplier_id=find_supplier(session, customer).id,
        batch_id=wave.batch_id if wave else None,
        reason="because",
        **values,
    )
    session.add(undo)
    for position, (process_id, number, outcome) in enumerate(lines, 1):
        session.add(
            UndoLine(
                undo_id=undo.id,
                position=position,
                account_import_process_id=process_id,
                service_account_number=number,
                outcome=outcome,
            )
        )
    session.flush()
    return undo


def add_line(session: Session, wave: Wave, number: str, account: str, **values: Any) -> None:
    """Add a line to the batch of a wave: an account that it has created."""
    lines = select(func.count()).where(BatchLine.batch_id == wave.batch_id)
    session.add(
        BatchLine(
            batch_id=wave.batch_id,
            line_number=(session.scalar(lines) or 0) + 1,
            external_account_number=number,
            service_account_number=account,
            status="IMPORTED",
            **values,
        )
    )
    session.flush()
