"""What sweeps do with a plan: by its clock, by its batches, and by what was compared."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Comparison, Wave, WavePlan
from migration_service.services.reconciliation import created_accounts
from migration_service.services.reconciliation.comparisons import start_comparison
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.services.waves import sweep
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.sweep import (
    advance_plan,
    advance_plans,
    reconcile_piece,
    reconcile_waves,
)
from migration_service.states import BatchState, ChunkState, ImportState, WaveState
from support.factories import Customer
from support.rows import add_chunk
from unit.services.undo.undo_rows import add_pending
from unit.services.waves import wave_rows

pytestmark = pytest.mark.usefixtures("now")
PLANNED, WAITING, RUNNING, PAUSED = (
    WaveState.PLANNED,
    WaveState.WAITING,
    WaveState.RUNNING,
    WaveState.PAUSED,
)
CLOSED = "window_closed"
BEFORE = wave_rows.EVENING - timedelta(hours=1)


@dataclass(frozen=True)
class Case:
    """A wave with its batch before a sweep, and what is different after it, as `sweep.ndjson` has them."""

    name: str
    wave: str
    batch: str
    #: It is open or closed.
    window: str = ""
    #: Of the batch.
    reason: str | None = None
    #: The states afterwards, the reasons, and the end of the batch's time. It was an hour ago.
    then: Sequence[str] = ()
    why: Sequence[str | None] = (None, None)
    until: str = ""
    #: What the audit tells.
    told: Sequence[str] = ()

    def __str__(self) -> str:
        return self.name


_CASES = [
    Case(**json.loads(row)) for row in Path(__file__).with_name("sweep.ndjson").read_text().splitlines()
]


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_a_sweep_does_what_is_due_in_a_wave(session: Session, customer: Customer, case: Case) -> None:
    window = {"open": wave_rows.OPEN_NOW, "closed": wave_rows.CLOSED_NOW}.get(case.window)
    plan, wave = wave_rows.make_wave(
        session, customer, WaveState(case.wave), time_window=window, differing=3, open=3
    )
    if case.wave == PAUSED:
        wave.reason = case.reason
    batch = wave_rows.batch_of(
        session, wave, state=BatchState(case.batch), reason=case.reason, runs_until=BEFORE, brake_since=BEFORE
    )
    add_chunk(session, batch, state=ChunkState.PENDING)
    advance_plan(session, plan.id)
    session.flush()
    assert [wave.state, batch.state] == (case.then or [case.wave, case.batch])
    until = wave_rows.MIDNIGHT if case.until == "midnight" else BEFORE
    assert (wave.reason, batch.reason, batch.runs_until) == (*case.why, until)
    assert [action for action, _, _ in wave_rows.acts(session)] == [f"wave.{action}" for action in case.told]
    is_compared = case.told == ["reconciled"]
    assert (wave.differing, wave.open) == ((None, None) if is_compared else (3, 3))
    assert (wave.began_at == wave_rows.EVENING) is ("began" in case.told)
    if "continued" in case.told:
        assert batch.brake_since == BEFORE, "nobody has looked at the errors"
    assert (plan.finished_at is not None) is (wave.state == "STOPPED")
    if wave.state == "STOPPED":
        assert wave.decision_reason == "batch_cancelled"


@pytest.mark.parametrize("chunk", [ChunkState.DONE, None])
def test_a_wave_without_lines_left_does_not_wait_for_its_next_window_to_end(
    session: Session, customer: Customer, other: Customer, chunk: ChunkState | None
) -> None:
    elsewhere = wave_rows.batch_of(session, wave_rows.make_wave(session, other, RUNNING)[1])
    add_chunk(session, elsewhere, state=ChunkState.PENDING)
    plan, wave = wave_rows.make_wave(
        session, customer, PAUSED, time_window=wave_rows.CLOSED_NOW, reason=CLOSED
    )
    batch = wave_rows.batch_of(session, wave, reason=CLOSED, runs_until=BEFORE)
    if chunk:
        add_chunk(session, batch, state=chunk)
    advance_plan(session, plan.id)
    assert (wave.state, batch.state, batch.runs_until) == ("RECONCILING", "COMPLETED", BEFORE)
    assert [action for action, _, _ in wave_rows.acts(session)] == ["wave.reconciled"]
    assert elsewhere.state == "RUNNING"


@pytest.mark.parametrize("chunk", [ChunkState.DISPATCHED, ChunkState.PENDING])
def test_a_wave_with_lines_left_waits_for_its_next_window(
    session: Session, customer: Customer, chunk: ChunkState
) -> None:
    plan, wave = wave_rows.make_wave(
        session, customer, PAUSED, time_window=wave_rows.CLOSED_NOW, reason=CLOSED
    )
    batch = wave_rows.batch_of(session, wave, reason=CLOSED)
    add_chunk(session, batch, 1, state=ChunkState.DONE)
    add_chunk(session, batch, 10, state=chunk)
    advance_plan(session, plan.id)
    assert (wave.state, batch.state) == ("PAUSED", "PAUSED")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([WaveState.APPROVED, PLANNED, PLANNED], ["APPROVED", "RUNNING", "PLANNED"]),
        ([WaveState.STOPPED, PLANNED, PLANNED], ["STOPPED", "RUNNING", "PLANNED"]),
        # The next one is already announced, for the approval that it waits for.
        ([WaveState.CLEAN, PLANNED, PLANNED], ["CLEAN", "WAITING", "PLANNED"]),
        ([WaveState.DIFFERS, WAITING, PLANNED], ["DIFFERS", "WAITING", "PLANNED"]),
        ([WaveState.RECONCILING, PLANNED, PLANNED], ["RECONCILING", "PLANNED", "PLANNED"]),
        ([WaveState.APPROVED, WaveState.CLEAN], ["APPROVED", "CLEAN"]),
    ],
)
def test_waves_come_one_after_the_other(
    session: Session, customer: Customer, states: list[WaveState], expected: list[str]
) -> None:
    plan = wave_rows.make_plan(session, customer, *states)
    advance_plan(session, plan.id)
    waves = list_waves(session, plan.id)
    assert [(it.number, it.state) for it in waves] == [*enumerate(expected, 1)]
    assert plan.finished_at is None


def test_a_plan_that_somebody_else_has_locked_is_left_to_them(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        plan = wave_rows.make_plan(session, customer, PLANNED)
        session.commit()
        row = select(WavePlan.id).where(WavePlan.id == plan.id)
        another.execute(row.with_for_update(key_share=True))
        advance_plan(session, plan.id)
        session.commit()
        assert _states(session, plan.id) == ["PLANNED"]
        another.rollback()
        another.execute(row.with_for_update(key_share=True, read=True))
        advance_plan(session, plan.id)
        session.commit()
        assert _states(session, plan.id) == ["WAITING"], "what only refers to the plan hinders nobody"


def _states(session: Session, plan_id: UUID) -> list[str]:
    return [wave.state for wave in list_waves(session, plan_id)]


def test_what_hinders_one_plan_hinders_no_other(
    sessions: sessionmaker[Session], customer: Customer, other: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    with sessions.begin() as session:
        hindered, wave = wave_rows.make_wave(session, customer, WAITING, time_window=wave_rows.OPEN_NOW)
        wave_rows.batch_of(session, wave, state=BatchState.COMPLETED)
        finished = wave_rows.make_plan(session, customer, PLANNED, finished_at=wave_rows.EVENING)
        plan = wave_rows.make_plan(session, other, PLANNED)
    with caplog.at_level(logging.WARNING):
        advance_plans(sessions)
    with sessions() as session:
        assert _states(session, hindered.id) == ["WAITING"]
        assert _states(session, finished.id) == ["PLANNED"]
        assert _states(session, plan.id) == ["WAITING"]
    (line,) = caplog.messages
    assert line.startswith(f"Wave plan {hindered.id} was not carried on: The batch is COMPLETED.")


RECONCILING = WaveState.RECONCILING


def _run(session: Session, wave: Wave) -> list[tuple[str, int | None, int | None]]:
    """Compare piece by piece. Return what is known of the wave after each."""
    found = []
    more = True
    while more:
        more = reconcile_piece(session, wave.batch_id)
        session.flush()
        found.append((wave.state, wave.differing, wave.open))
    return found


def _add(session: Session, customer: Customer, wave: Wave, *numbers: str, **values: Any) -> None:
    """Add lines to a wave, and an import process for each, which has no account."""
    add_pending(session, customer, *numbers, **values)
    for number in numbers:
        wave_rows.add_to_wave(session, wave, number, "A-1")


def test_a_wave_is_judged_once_all_of_it_has_been_compared(session: Session, customer: Customer) -> None:
    _, wave = wave_rows.make_wave(session, customer, RECONCILING)
    _add(session, customer, wave, "a", "b", "c", state=ImportState.IMPORTED)
    with patch.object(created_accounts, "PAGE", 2):
        *before, last = _run(session, wave)
    assert {*before} == {("RECONCILING", None, None)}
    assert len(before) == 6  # two pages of accounts, their end, both kinds of lines, and old figures
    assert last == ("DIFFERS", 3, 0)
    found = {"differing": 3, "open": 0, "batch_id": str(wave.batch_id)}
    assert wave_rows.acts(session) == [("wave.found_different", "1", found)]


def test_a_comparison_that_began_before_the_end_of_the_wave_does_not_count(
    session: Session, customer: Customer
) -> None:
    plan, wave = wave_rows.make_wave(session, customer, RECONCILING)
    supplier = get_import_supplier_by_id(session, plan.import_supplier_id)
    earlier, _ = start_comparison(session, supplier, wave.batch_id)
    assert reconcile_piece(session, wave.batch_id)
    assert wave.comparison_id is None
    _run(session, wave)
    assert wave.state == "CLEAN"
    assert session.get(Comparison, earlier.id) is None
    assert wave.comparison_id is not None


@pytest.mark.parametrize("state", [WaveState.RUNNING, WaveState.APPROVED])
def test_a_wave_that_is_not_to_be_compared_is_left_as_it_is(
    session: Session, customer: Customer, state: WaveState
) -> None:
    _, wave = wave_rows.make_wave(session, customer, state)
    assert _run(session, wave) == [(state, None, None)]


def test_a_wave_that_somebody_else_has_locked_is_left_to_them(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        _, wave = wave_rows.make_wave(session, customer, RECONCILING)
        session.commit()
        assert another.scalars(select(Wave.number).with_for_update()).all() == [1]
        assert reconcile_piece(session, wave.batch_id) is False
        another.rollback()
        assert wave.state == "RECONCILING"
        assert _run(session, wave)[-1] == ("CLEAN", 0, 0)
        assert another.scalars(select(Wave.number).with_for_update(skip_locked=True)).all() == []


def test_every_wave_that_is_due_is_compared(
    sessions: sessionmaker[Session], customer: Customer, other: Customer
) -> None:
    with sessions.begin() as session:
        first = wave_rows.make_plan(session, customer, RECONCILING, WaveState.RUNNING)
        _add(session, customer, list_waves(session, first.id)[0], "a", "b", state=ImportState.IMPORTED)
        second = wave_rows.make_plan(session, other, RECONCILING)
    reconcile_waves(sessions, seconds=0)
    with sessions() as session:
        assert {it.state for it in list_waves(session, second.id)} == {"RECONCILING"}, "there was no time"
    reconcile_waves(sessions, seconds=60)
    with sessions() as session:
        assert [(it.state, it.differing) for it in list_waves(session, first.id)] == [
            ("DIFFERS", 2),
            ("RUNNING", None),
        ]
        assert [(it.state, it.differing) for it in list_waves(session, second.id)] == [("CLEAN", 0)]


def test_organisations_take_turns_page_by_page(
    sessions: sessionmaker[Session], customer: Customer, other: Customer
) -> None:
    with sessions.begin() as session:
        many = wave_rows.make_plan(session, customer, RECONCILING, RECONCILING)
        for number, wave in enumerate(list_waves(session, many.id)):
            _add(session, customer, wave, f"{number}a", state=ImportState.IMPORTED)
        one = list_waves(session, wave_rows.make_plan(session, other, RECONCILING).id)[0].batch_id
    compared: list[UUID] = []

    def note(session: Session, batch_id: UUID) -> bool:
        compared.append(batch_id)
        return reconcile_piece(session, batch_id)

    with patch.object(sweep, "reconcile_piece", note):
        reconcile_waves(sessions, seconds=60)
    assert one in compared[:2]
    with sessions() as session:
        assert {it.state for it in list_waves(session, many.id)} == {"DIFFERS"}
