"""Comparing what a wave created with what was staged, page by page."""

from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Wave
from migration_service.services.waves import reconciliation
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.reconciliation import reconcile_page, reconcile_waves
from migration_service.states import ImportState, WaveState
from support.factories import Customer
from unit.services.undo.undo_rows import add_pending
from unit.services.waves.wave_rows import acts, add_to_wave, make_plan, make_wave

RECONCILING = WaveState.RECONCILING


def _run(session: Session, wave: Wave) -> list[tuple[bool, str, int, int | None, int | None]]:
    """Compare page by page. Return after each whether there are more, and what is known of the wave."""
    found = []
    more = True
    while more:
        more = reconcile_page(session, wave.batch_id)
        session.flush()
        found.append((more, wave.state, wave.reconciled_to, wave.differing, wave.open))
    return found


def _add(session: Session, customer: Customer, wave: Wave, *numbers: str, **values: Any) -> None:
    """Add lines to a wave, and an import process for each, which has no account."""
    add_pending(session, customer, *numbers, **values)
    for number in numbers:
        add_to_wave(session, wave, number, "A-1")


def test_what_differs_is_counted_page_by_page(session: Session, customer: Customer) -> None:
    """A worker that died has compared the accounts up to line 1, of which three differ."""
    _, wave = make_wave(session, customer, RECONCILING, reconciled_to=1, differing=3)
    _add(session, customer, wave, "a", "b", "c", state=ImportState.IMPORTED)
    assert _run(session, wave) == [(True, "RECONCILING", 3, 5, None), (False, "DIFFERS", 3, 5, 0)]
    found = {"differing": 5, "open": 0, "batch_id": str(wave.batch_id)}
    assert acts(session) == [("wave.found_different", "1", found)]


@pytest.mark.parametrize("state", [WaveState.RUNNING, WaveState.APPROVED])
def test_a_wave_that_is_not_to_be_compared_is_left_as_it_is(
    session: Session, customer: Customer, state: WaveState
) -> None:
    _, wave = make_wave(session, customer, state)
    assert _run(session, wave) == [(False, state, 0, None, None)]


def test_a_wave_that_somebody_else_has_locked_is_left_to_them(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session, sessions() as another:
        _, wave = make_wave(session, customer, RECONCILING)
        session.commit()
        assert another.scalars(select(Wave.number).with_for_update()).all() == [1]
        assert reconcile_page(session, wave.batch_id) is False
        another.rollback()
        assert wave.state == "RECONCILING"
        assert reconcile_page(session, wave.batch_id) is False
        assert wave.state == "CLEAN"
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
        return reconcile_page(session, batch_id)

    with patch.object(reconciliation, "reconcile_page", note):
        reconcile_waves(sessions, seconds=60)
    assert one in compared[:2]
    with sessions() as session:
        assert {it.state for it in list_waves(session, many.id)} == {"DIFFERS"}
