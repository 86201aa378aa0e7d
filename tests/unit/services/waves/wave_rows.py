"""Rows of plans, waves and undos, as tests need them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service import models
from migration_service.services.waves.reading import list_waves
from migration_service.states import BatchState, UndoOutcome, WaveState
from support import rows
from support.audit import list_entries
from support.factories import Customer
from support.rows import make_batch, team_of
from unit.services.undo.undo_rows import add_line, add_undo, add_undo_line

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


def make_plan(session: Session, customer: Customer, *states: WaveState, **values: Any) -> models.WavePlan:
    """Insert a plan whose waves are in these states. Their batches are in the usual ones, without lines."""
    team = {"operations_team_id": team_of(customer)}
    plan = rows.make_plan(session, rows.find_supplier(session, customer), **team | values)
    # The last one first, so that only who orders them gets them in their order.
    for number, state in reversed([*enumerate(states, 1)]):
        batch_state = _USUAL.get(state, BatchState.COMPLETED)
        batch = make_batch(session, customer, mode="import", source="pending", state=batch_state)
        rows.add(session, models.Wave(plan_id=plan.id, number=number, batch_id=batch.id, state=state))
    session.refresh(plan)
    return plan


def make_wave(
    session: Session, customer: Customer, state: WaveState, **values: Any
) -> tuple[models.WavePlan, models.Wave]:
    """Insert a plan with one wave, with these values. Return both."""
    plan = make_plan(session, customer, state)
    (wave,) = list_waves(session, plan.id)
    for name, value in values.items():
        setattr(wave, name, value)
    session.flush()
    return plan, wave


def batch_of(session: Session, wave: models.Wave, **values: Any) -> models.Batch:
    """Return the batch of a wave, after these changes."""
    session.flush()
    batch = session.get_one(models.Batch, wave.batch_id, populate_existing=True)
    for name, value in values.items():
        setattr(batch, name, value)
    session.flush()
    return batch


def acts(session: Session) -> list[tuple[str, str, Mapping[str, Any] | None]]:
    """Return what the audit tells of waves: the act, the number of the wave, and the details."""
    entries = list_entries(session, subject_kind="wave")
    return [(it.action, str(it.subject).split()[-1], it.details) for it in entries]


def undo_wave(
    session: Session,
    customer: Customer,
    wave: models.Wave | None,
    lines: Sequence[tuple[int, str, UndoOutcome]] = (),
    **values: Any,
) -> models.Undo:
    """Insert an undo of a wave's accounts, or of named ones. A line is a process, a number and an outcome."""
    undo = add_undo(session, customer, batch_id=wave.batch_id if wave else None, **values)
    for position, (process_id, number, outcome) in enumerate(lines, 1):
        add_undo_line(session, undo, position, process_id, number, outcome=outcome)
    return undo


def add_to_wave(session: Session, wave: models.Wave, number: str, account: str, **values: Any) -> None:
    """Add a line to the batch of a wave: an account that it has created."""
    lines = select(func.count()).where(models.BatchLine.batch_id == wave.batch_id)
    place = (session.scalar(lines) or 0) + 1
    add_line(session, wave.batch_id, place, number, service_account_number=account, **values)
