"""What sweeps do with a plan: by its clock, by its batches, and by what was compared."""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
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
from migration_service.services.waves import reconciliation
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.reconciliation import reconcile_piece, reconcile_waves
from migration_service.services.waves.sweep import advance_plan, advance_plans
from migration_service.states import BatchState, ChunkState, ImportState, WaveState
from support.factories import Customer
from unit.services.batches.batch_rows import add_chunk
from unit.services.undo.undo_rows import add_pending
from unit.services.waves.wave_rows import (
    CLOSED_NOW,
    EVENING,
    MIDNIGHT,
    OPEN_NOW,
    acts,
    add_to_wave,
    batch_of,
    make_plan,
    make_wave,
)

pytestmark = pytest.mark.usefixtures("now")
PLANNED, WAITING, RUNNING, PAUSED = (
    WaveState.PLANNED,
    WaveState.WAITING,
    WaveState.RUNNING,
    WaveState.PAUSED,
)
CLOSED = "window_closed"
THRESHOLD = "error_threshold_reached"
BEFORE = EVENING - timedelta(hours=1)


@dataclass(frozen=True)
class Case:
    """A wave with its batch before a sweep, and what is different after it."""

    wave: WaveState
    batch: BatchState
    window: dict[str, Any] | None = None
    #: Of the batch.
    reason: str | None = None
    #: The states afterwards, the reasons, and the end of the batch's time. It was an hour ago.
    then: tuple[str, str] | None = None
    why: tuple[str | None, str | None] = (None, None)
    until: datetime | None = BEFORE
    #: What the audit tells.
    told: tuple[str, ...] = ()


_CASES = {
    "it is its turn": Case(PLANNED, BatchState.PAUSED, then=("WAITING", "PAUSED"), told=("queued",)),
    "it waits for a person": Case(WAITING, BatchState.PAUSED),
    "it waits for its window": Case(WAITING, BatchState.PAUSED, CLOSED_NOW),
    "its window opens": Case(
        WAITING, BatchState.PAUSED, OPEN_NOW, then=("RUNNING", "RUNNING"), until=MIDNIGHT, told=("began",)
    ),
    "it is its turn in its window": Case(
        *(PLANNED, BatchState.PAUSED, OPEN_NOW),
        then=("RUNNING", "RUNNING"),
        until=MIDNIGHT,
        told=("queued", "began"),
    ),
    "its batch was resumed by itself": Case(
        WAITING, BatchState.RUNNING, OPEN_NOW, then=("RUNNING", "RUNNING"), until=MIDNIGHT, told=("began",)
    ),
    "its batch was cancelled before its turn": Case(
        PLANNED, BatchState.CANCELLED, then=("STOPPED", "CANCELLED"), told=("stopped",)
    ),
    "its batch was cancelled before it began": Case(
        WAITING, BatchState.CANCELLED, OPEN_NOW, then=("STOPPED", "CANCELLED"), told=("stopped",)
    ),
    "it runs": Case(RUNNING, BatchState.RUNNING),
    "it runs in its window": Case(RUNNING, BatchState.RUNNING, OPEN_NOW, until=MIDNIGHT),
    "its supplier is paused": Case(RUNNING, BatchState.WAITING, reason="why", why=(None, "why")),
    "its window closes": Case(
        *(RUNNING, BatchState.RUNNING, CLOSED_NOW),
        then=("PAUSED", "PAUSED"),
        why=(CLOSED, CLOSED),
        told=("paused",),
    ),
    "its window closes while its supplier is paused": Case(
        *(RUNNING, BatchState.WAITING, CLOSED_NOW, "why"),
        then=("PAUSED", "PAUSED"),
        why=(CLOSED, CLOSED),
        told=("paused",),
    ),
    "a worker has found that its window is closed": Case(
        *(RUNNING, BatchState.PAUSED, CLOSED_NOW, CLOSED),
        then=("PAUSED", "PAUSED"),
        why=(CLOSED, CLOSED),
        told=("paused",),
    ),
    "a person has paused its batch": Case(
        RUNNING, BatchState.PAUSED, OPEN_NOW, then=("PAUSED", "PAUSED"), told=("paused",)
    ),
    "an error threshold has paused its batch": Case(
        *(RUNNING, BatchState.PAUSED, None, THRESHOLD),
        then=("PAUSED", "PAUSED"),
        why=(THRESHOLD, THRESHOLD),
        told=("paused",),
    ),
    "its supplier is complete": Case(
        *(RUNNING, BatchState.STOPPED, None, "why"),
        then=("PAUSED", "STOPPED"),
        why=("why", "why"),
        told=("paused",),
    ),
    "it waits for its next window": Case(PAUSED, BatchState.PAUSED, CLOSED_NOW, CLOSED, why=(CLOSED, CLOSED)),
    "its next window opens": Case(
        *(PAUSED, BatchState.PAUSED, OPEN_NOW, CLOSED),
        then=("RUNNING", "RUNNING"),
        until=MIDNIGHT,
        told=("went_on",),
    ),
    "a person keeps it out of its window": Case(PAUSED, BatchState.PAUSED, OPEN_NOW),
    "an error threshold keeps it out of its window": Case(
        PAUSED, BatchState.PAUSED, OPEN_NOW, THRESHOLD, why=(THRESHOLD, THRESHOLD)
    ),
    "what stopped in its window is not what the window stopped": Case(
        PAUSED, BatchState.STOPPED, OPEN_NOW, CLOSED, why=(CLOSED, CLOSED)
    ),
    "its batch was resumed": Case(PAUSED, BatchState.RUNNING, then=("RUNNING", "RUNNING"), told=("went_on",)),
    "its batch was resumed outside its window": Case(
        PAUSED, BatchState.RUNNING, CLOSED_NOW, then=("PAUSED", "PAUSED"), why=(CLOSED, CLOSED)
    ),
    "every line has an outcome": Case(
        RUNNING, BatchState.COMPLETED, then=("RECONCILING", "COMPLETED"), told=("reconciled",)
    ),
    "every line has an outcome at the end of the window": Case(
        PAUSED, BatchState.COMPLETED, CLOSED_NOW, then=("RECONCILING", "COMPLETED"), told=("reconciled",)
    ),
    "its batch was cancelled": Case(
        RUNNING, BatchState.CANCELLED, then=("RECONCILING", "CANCELLED"), told=("reconciled",)
    ),
    "it is being reconciled": Case(WaveState.RECONCILING, BatchState.COMPLETED, OPEN_NOW),
    "a person decides about it": Case(WaveState.DIFFERS, BatchState.CANCELLED, OPEN_NOW),
    "its failed lines are retried": Case(
        WaveState.CLEAN, BatchState.RUNNING, then=("RUNNING", "RUNNING"), told=("reopened",)
    ),
    "its failed lines are retried outside its window": Case(
        *(WaveState.DIFFERS, BatchState.RUNNING, CLOSED_NOW),
        then=("PAUSED", "PAUSED"),
        why=(CLOSED, CLOSED),
        told=("reopened", "paused"),
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_a_sweep_does_what_is_due_in_a_wave(session: Session, customer: Customer, name: str) -> None:
    case = _CASES[name]
    plan, wave = make_wave(session, customer, case.wave, time_window=case.window, differing=3, open=3)
    if case.wave is PAUSED:
        wave.reason = case.reason
    batch = batch_of(
        session, wave, state=case.batch, reason=case.reason, runs_until=BEFORE, brake_since=BEFORE
    )
    add_chunk(session, batch, state=ChunkState.PENDING)
    advance_plan(session, plan.id)
    session.flush()
    assert (wave.state, batch.state) == (case.then or (case.wave, case.batch))
    assert (wave.reason, batch.reason, batch.runs_until) == (*case.why, case.until)
    assert [action for action, _, _ in acts(session)] == [f"wave.{action}" for action in case.told]
    is_compared = case.told == ("reconciled",)
    assert (wave.differing, wave.open) == ((None, None) if is_compared else (3, 3))
    assert (wave.began_at == EVENING) is ("began" in case.told)
    if "went_on" in case.told:
        assert batch.brake_since == BEFORE, "nobody has looked at the errors"
    assert (plan.finished_at is not None) is (wave.state == "STOPPED")
    if wave.state == "STOPPED":
        assert wave.decision_reason == "batch_cancelled"


@pytest.mark.parametrize("chunk", [ChunkState.DONE, None])
def test_a_wave_without_lines_left_does_not_wait_for_its_next_window_to_end(
    session: Session, customer: Customer, other: Customer, chunk: ChunkState | None
) -> None:
    elsewhere = batch_of(session, make_wave(session, other, RUNNING)[1])
    add_chunk(session, elsewhere, state=ChunkState.PENDING)
    plan, wave = make_wave(session, customer, PAUSED, time_window=CLOSED_NOW, reason=CLOSED)
    batch = batch_of(session, wave, reason=CLOSED, runs_until=BEFORE)
    if chunk:
        add_chunk(session, batch, state=chunk)
    advance_plan(session, plan.id)
    assert (wave.state, batch.state, batch.runs_until) == ("RECONCILING", "COMPLETED", BEFORE)
    assert [action for action, _, _ in acts(session)] == ["wave.reconciled"]
    assert elsewhere.state == "RUNNING"


@pytest.mark.parametrize("chunk", [ChunkState.DISPATCHED, ChunkState.PENDING])
def test_a_wave_with_lines_left_waits_for_its_next_window(
    session: Session, customer: Customer, chunk: ChunkState
) -> None:
    plan, wave = make_wave(session, customer, PAUSED, time_window=CLOSED_NOW, reason=CLOSED)
    batch = batch_of(session, wave, reason=CLOSED)
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
    plan = make_plan(session, customer, *states)
    advance_plan(session, plan.id)
    waves = list_waves(session, plan.id)
    assert [(it.number, it.state) for it in waves] == [*enumerate(expected, 1)]
    assert plan.finished_at is None


def test_a_plan_that_somebody_else_has_locked_is_left_to_them(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        plan = make_plan(session, customer, PLANNED)
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
        hindered, wave = make_wave(session, customer, WAITING, time_window=OPEN_NOW)
        batch_of(session, wave, state=BatchState.COMPLETED)
        finished = make_plan(session, customer, PLANNED, finished_at=EVENING)
        plan = make_plan(session, other, PLANNED)
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
        add_to_wave(session, wave, number, "A-1")


def test_a_wave_is_judged_once_all_of_it_has_been_compared(session: Session, customer: Customer) -> None:
    _, wave = make_wave(session, customer, RECONCILING)
    _add(session, customer, wave, "a", "b", "c", state=ImportState.IMPORTED)
    with patch.object(created_accounts, "PAGE", 2):
        *before, last = _run(session, wave)
    assert {*before} == {("RECONCILING", None, None)}
    assert len(before) == 5  # two pages of accounts, their end, and both kinds of lines
    assert last == ("DIFFERS", 3, 0)
    found = {"differing": 3, "open": 0, "batch_id": str(wave.batch_id)}
    assert acts(session) == [("wave.found_different", "1", found)]


def test_a_comparison_that_began_before_the_end_of_the_wave_does_not_count(
    session: Session, customer: Customer
) -> None:
    plan, wave = make_wave(session, customer, RECONCILING)
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
    _, wave = make_wave(session, customer, state)
    assert _run(session, wave) == [(state, None, None)]


def test_a_wave_that_somebody_else_has_locked_is_left_to_them(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        _, wave = make_wave(session, customer, RECONCILING)
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
        first = make_plan(session, customer, RECONCILING, WaveState.RUNNING)
        _add(session, customer, list_waves(session, first.id)[0], "a", "b", state=ImportState.IMPORTED)
        second = make_plan(session, other, RECONCILING)
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
        many = make_plan(session, customer, RECONCILING, RECONCILING)
        for number, wave in enumerate(list_waves(session, many.id)):
            _add(session, customer, wave, f"{number}a", state=ImportState.IMPORTED)
        one = list_waves(session, make_plan(session, other, RECONCILING).id)[0].batch_id
    compared: list[UUID] = []

    def note(session: Session, batch_id: UUID) -> bool:
        compared.append(batch_id)
        return reconcile_piece(session, batch_id)

    with patch.object(reconciliation, "reconcile_piece", note):
        reconcile_waves(sessions, seconds=60)
    assert one in compared[:2]
    with sessions() as session:
        assert {it.state for it in list_waves(session, many.id)} == {"DIFFERS"}
