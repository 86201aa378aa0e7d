"""The table of the changes of a wave: every change from every state, and its entry in the audit."""

from collections.abc import Iterator

import pytest
from sqlalchemy import select, update

from batch_client import BatchClient
from migration_service.errors import WaveStateError
from migration_service.models import AuditEntry, Wave, WavePlan
from migration_service.services.waves import states
from migration_service.services.waves.states import CHANGES, WaveChange, change_wave
from migration_service.states import WaveState
from migration_service.tasks.resources import WorkerResources
from supplier_client import SupplierClient
from wave_client import WaveClient


@pytest.fixture
def waves(supplier: SupplierClient, worker_resources: WorkerResources) -> Iterator[WaveClient]:
    client = WaveClient(BatchClient(supplier, worker_resources))
    client.stage(1)
    client.plan({"rest": True})
    yield client


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.action.value)
def test_a_change_is_made_from_its_sources_and_refused_from_every_other_state(
    waves: WaveClient, change: WaveChange
) -> None:
    for state in WaveState:
        with waves.supplier.Session.begin() as session:
            session.execute(update(Wave).values(state=state, reason=None))
        with waves.supplier.Session.begin() as session:
            plan, wave = session.scalars(select(WavePlan)).one(), session.scalars(select(Wave)).one()
            before = _told(waves)
            try:
                change_wave(session, plan, wave, change, reason="because")
            except WaveStateError:
                allowed = False
            else:
                allowed = True
        assert allowed == (state in change.sources)
        assert wave.state == (change.target if allowed else state)
        told = _told(waves)[len(before) :]
        assert told == ([(change.action, "because")] if allowed else [])


def _told(waves: WaveClient) -> list[tuple[str, str | None]]:
    with waves.supplier.Session() as session:
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
        return [(it.action, (it.details or {}).get("reason")) for it in entries]


def test_every_change_of_the_module_is_in_the_table() -> None:
    named = {value for value in vars(states).values() if isinstance(value, WaveChange)}
    assert named == set(CHANGES)


def test_every_state_can_be_reached_and_only_what_is_over_cannot_be_left() -> None:
    assert {change.target for change in CHANGES} | {WaveState.PLANNED} == set(WaveState)
    sources = {source for change in CHANGES for source in change.sources}
    assert set(WaveState) - sources == {WaveState.STOPPED}
