"""What is reported of plans and their waves, as figures and in words."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from migration_service.services.batches.error_thresholds import ErrorThreshold
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.reports import WaveReport, describe_state, report_plan
from migration_service.states import LineStatus, UndoOutcome, WaveState
from support.factories import Customer
from support.rows import add_chunk
from unit.services.undo.undo_rows import add_pending
from unit.services.waves import wave_rows

pytestmark = pytest.mark.usefixtures("now")
NONE = dict.fromkeys((status.value for status in LineStatus), 0)


def test_a_wave_is_reported_as_a_whole(session: Session, customer: Customer) -> None:
    stored = {
        "name": "Pilot",
        "reason": "why",
        "strata": [{"stratum": "GAS", "pending": 2, "drawn": 1}],
        "began_at": wave_rows.EVENING - timedelta(hours=3),
        "reconciled_at": wave_rows.EVENING - timedelta(hours=2),
        "decided_at": wave_rows.EVENING - timedelta(hours=1),
        "began_by": "ann",
        "ended_at": wave_rows.EVENING,
        "differing": 1,
        "open": 2,
        "decided_by": "ann",
        "decided_as": "ben",
        "decision_reason": "known",
        "continue_if_clean": True,
    }
    plan, wave = wave_rows.make_wave(
        session, customer, WaveState.APPROVED, time_window=wave_rows.OPEN_NOW, **stored
    )
    brake = ErrorThreshold(stop_after_errors="5").to_dict()
    batch = wave_rows.batch_of(session, wave, lines=9, lines_per_minute=60, brake=brake)
    add_chunk(session, batch, 1, counts={"IMPORTED": 2, "FAILED": 1})
    add_chunk(session, batch, 4, counts={"IMPORTED": 4, "ALREADY_IMPORTED": 1})
    processes = add_pending(session, customer, "one", "two", "three")
    outcomes = (UndoOutcome.REVERTED, UndoOutcome.REVERTED, UndoOutcome.KEPT)
    lines = [(process_id, "A-1", outcome) for process_id, outcome in zip(processes, outcomes, strict=True)]
    wave_rows.undo_wave(session, customer, wave, lines, finished_at=wave_rows.EVENING)
    (report,) = report_plan(session, plan).waves
    assert asdict(report) == {
        **stored,
        "number": 1,
        "state": "APPROVED",
        "waits_for": None,
        "waits_for_wave": None,
        "batch_id": wave.batch_id,
        "lines": 9,
        "counts": NONE | {"IMPORTED": 6, "ALREADY_IMPORTED": 1, "FAILED": 1},
        "window": wave_rows.OPEN_NOW,
        "opens_at": None,
        "closes_at": None,
        "seconds_50": None,
        "seconds_90": None,
        "ends_at_50": None,
        "ends_at_90": None,
        "fits_window": None,
        "lines_per_minute": 60,
        "operations_team_name": customer.operations_team,
        "brake": brake,
        "reverted": 2,
        "existing": 5,
        "undo_id": None,
    }
    assert report.undone == 2, "one more existed before"


def _report(session: Session, customer: Customer, state: WaveState, **values: Any) -> WaveReport:
    plan, _ = wave_rows.make_wave(session, customer, state, **values)
    (report,) = report_plan(session, plan).waves
    return report


@pytest.mark.parametrize("state", WaveState)
def test_a_wave_has_an_opening_for_as_long_as_it_needs_one(
    session: Session, customer: Customer, state: WaveState
) -> None:
    report = _report(session, customer, state, time_window=wave_rows.OPEN_NOW)
    is_needed = state in ("PLANNED", "WAITING", "RUNNING", "PAUSED")
    expected = (wave_rows.EVENING.replace(minute=0), wave_rows.MIDNIGHT) if is_needed else (None, None)
    assert (report.opens_at, report.closes_at) == expected
    assert (report.counts, report.reverted, report.existing) == (NONE, 0, 0)


def test_the_opening_of_a_wave_is_the_next_one_or_none_if_it_has_no_window(
    session: Session, customer: Customer, other: Customer
) -> None:
    report = _report(session, customer, WaveState.WAITING, time_window=wave_rows.CLOSED_NOW)
    morning = wave_rows.MIDNIGHT.replace(hour=6)
    assert (report.opens_at, report.closes_at) == (morning, morning.replace(hour=8))
    without = _report(session, other, WaveState.WAITING)
    assert (without.window, without.opens_at, without.closes_at) == (None, None, None)


@pytest.mark.parametrize(
    ("states", "window", "expected"),
    [
        ([WaveState.WAITING], None, ["person"]),
        ([WaveState.WAITING], wave_rows.CLOSED_NOW, ["window"]),
        ([WaveState.DIFFERS, WaveState.WAITING], wave_rows.CLOSED_NOW, [None, "approval"]),
        ([WaveState.CLEAN, WaveState.WAITING], None, [None, "approval"]),
        ([WaveState.APPROVED, WaveState.WAITING], None, [None, None]),
        (
            [WaveState.APPROVED, WaveState.WAITING, WaveState.PLANNED],
            wave_rows.CLOSED_NOW,
            [None, "window", None],
        ),
        ([WaveState.RUNNING, WaveState.PLANNED], wave_rows.CLOSED_NOW, [None, None]),
    ],
)
def test_what_a_wave_waits_for(
    session: Session,
    customer: Customer,
    states: list[WaveState],
    window: dict[str, Any] | None,
    expected: list[str | None],
) -> None:
    plan = wave_rows.make_plan(session, customer, *states)
    for wave in list_waves(session, plan.id):
        wave.time_window = window
    waves = report_plan(session, plan).waves
    assert [(it.number, it.waits_for) for it in waves] == [*enumerate(expected, 1)]


def test_a_wave_says_what_it_waits_for_and_when(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = wave_rows.make_plan(session, customer, WaveState.CLEAN, WaveState.WAITING)
    first, second = list_waves(session, plan.id)

    def say() -> list[str]:
        session.flush()
        return [describe_state(it) for it in report_plan(session, plan).waves]

    assert say() == ["CLEAN", "WAITING for the approval of wave 1"]
    first.state = WaveState.APPROVED
    assert say()[1] == "WAITING"
    second.time_window = wave_rows.CLOSED_NOW
    assert say()[1] == "WAITING for the window at 2026-03-03 06:00:00 UTC"
    first.state, first.reason = WaveState.PAUSED, "window_closed"
    assert say()[0] == "PAUSED (window_closed)"
    alone = report_plan(session, wave_rows.make_plan(session, other, WaveState.WAITING)).waves[0]
    assert describe_state(alone) == "WAITING for somebody to start it"


def test_a_wave_says_at_once_that_it_is_being_undone(session: Session, customer: Customer) -> None:
    plan = wave_rows.make_plan(session, customer, WaveState.CLEAN, WaveState.APPROVED)
    first, _ = list_waves(session, plan.id)
    wave_rows.undo_wave(session, customer, first)
    told = [describe_state(it) for it in report_plan(session, plan).waves]
    assert told == ["CLEAN, being undone", "APPROVED"]
