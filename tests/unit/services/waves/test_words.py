"""The state of a wave in words."""

import pytest
from sqlalchemy.orm import Session

from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.reports import describe_found, describe_state, report_plan
from migration_service.states import WaveState
from support.factories import Customer
from unit.services.waves.wave_rows import CLOSED_NOW, make_plan, undo_wave

pytestmark = pytest.mark.usefixtures("now")


def test_a_wave_says_what_it_waits_for_and_when(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = make_plan(session, customer, WaveState.CLEAN, WaveState.WAITING)
    first, second = list_waves(session, plan.id)

    def say() -> list[str]:
        session.flush()
        return [describe_state(it) for it in report_plan(session, plan).waves]

    assert say() == ["CLEAN", "WAITING for the approval of wave 1"]
    first.state = WaveState.APPROVED
    assert say()[1] == "WAITING"
    second.time_window = CLOSED_NOW
    assert say()[1] == "WAITING for the window at 2026-03-03 06:00:00 UTC"
    first.state, first.reason = WaveState.PAUSED, "window_closed"
    assert say()[0] == "PAUSED (window_closed)"
    alone = report_plan(session, make_plan(session, other, WaveState.WAITING)).waves[0]
    assert (describe_state(alone), describe_found(alone)) == ("WAITING for somebody to start it", None)


def test_a_wave_says_at_once_that_it_is_being_undone(session: Session, customer: Customer) -> None:
    plan = make_plan(session, customer, WaveState.CLEAN, WaveState.APPROVED)
    first, _ = list_waves(session, plan.id)
    undo_wave(session, customer, first)
    told = [describe_state(it) for it in report_plan(session, plan).waves]
    assert told == ["CLEAN, being undone", "APPROVED"]
