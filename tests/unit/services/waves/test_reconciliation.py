"""Comparing what a wave created with what was staged, page by page."""

from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Comparison, Wave
from migration_service.services.reconciliation import created_accounts
from migration_service.services.reconciliation.comparisons import start_comparison
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.services.waves import reconciliation
from migration_service.services.waves.reading import list_waves
from migration_service.services.waves.reconciliation import reconcile_piece, reconcile_waves
from migration_service.states import ImportState, WaveState
from support.factories import Customer
from unit.services.undo.undo_rows import add_pending
from unit.services.waves.wave_rows import acts, add_to_wave, make_plan, make_wave

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
