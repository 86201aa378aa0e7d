"""What locks a plan, a wave or its batch, in every order: sweeps, workers, reconciliation, and people."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from migration_service.errors import WaveStateError
from migration_service.models import Batch, Wave, WavePlan
from migration_service.services.batches.work.chunks import ChunkKey, read_chunk
from migration_service.services.batches.work.feed import dispatch_chunks
from migration_service.services.reconciliation.submitted import Submitted
from migration_service.services.reconciliation.verdict import Verdict
from migration_service.services.waves.acts import approve_wave, pause_wave, start_wave, stop_wave
from migration_service.services.waves.reading import lock_wave
from migration_service.services.waves.sweep import (
    advance_plan,
    advance_plans,
    reconcile_piece,
    reconcile_waves,
)
from migration_service.tasks.resources import WorkerResources
from support.audit import audited
from support.batch_client import BatchClient
from support.interleavings import COMMIT, Script, explore
from support.servers import EmbeddedServers
from support.supplier_client import SupplierClient
from support.wave_client import EVENING, NIGHT, NOON, WaveClient


class Planned:
    """A plan of two waves of one account each, in the evening."""

    def __init__(self, waves: WaveClient, plan: dict[str, Any]) -> None:
        self.waves = waves
        self.plan_id = UUID(plan["plan_id"])
        self.batch_ids = [UUID(wave["batch_id"]) for wave in plan["waves"]]
        waves.now = EVENING

    def act(self, action: Any, number: int = 1, **more: Any) -> Any:
        """Return a step's function that does `action` to a wave. It answers whether that was possible."""

        def act(session: Session) -> bool:
            plan = session.get_one(WavePlan, self.plan_id)
            wave = lock_wave(session, plan, number)
            try:
                action(session, plan, wave, **more)
                session.flush()
            except WaveStateError:
                return False
            return True

        return act

    def sweep(self, session: Session) -> None:
        advance_plan(session, self.plan_id)
        session.flush()

    def state(self, number: int = 1) -> str:
        with self.waves.supplier.Session() as session:
            return session.get_one(Wave, (self.plan_id, number)).state

    def batch(self, number: int = 1) -> Batch:
        with self.waves.supplier.Session() as session:
            return session.get_one(Batch, self.batch_ids[number - 1])

    def told(self, action: str) -> int:
        entries = audited(self.waves.supplier.Session, action=action)
        return sum(str(it.subject).startswith(str(self.plan_id)) for it in entries)

    def decisions(self) -> list[str]:
        """Approvals of the first wave and beginnings of the second one, in their order."""
        wanted = {("wave.approved", f"{self.plan_id} 1"), ("wave.began", f"{self.plan_id} 2")}
        entries = audited(self.waves.supplier.Session)
        return [it.action for it in entries if (it.action, it.subject) in wanted]


def at_once(action: Callable[[Session], Any]) -> Callable[[Session], Any]:
    """Do `action` and commit in one step, which leaves fewer orders."""

    def act(session: Session) -> Any:
        result = action(session)
        session.commit()
        return result

    return act


#: Makes a plan, the same one for each order. Its first wave waits, or is being reconciled.
Plan = Callable[..., Planned]


@pytest.fixture(scope="session")
def kept_plan(
    kept_supplier: SupplierClient, worker_resources: WorkerResources, embedded_servers: EmbeddedServers
) -> dict[str, Any]:
    with embedded_servers.keeping("plan"):
        embedded_servers.put_back("supplier")
        client = WaveClient(BatchClient(kept_supplier.copy(), worker_resources), NOON)
        with client.clock():
            client.stage(2)
            return client.plan({"size": 1}, {"rest": True}, window=NIGHT, continue_if_clean=True)


@pytest.fixture(scope="session")
def kept_created(
    kept_supplier: SupplierClient,
    kept_plan: dict[str, Any],
    worker_resources: WorkerResources,
    embedded_servers: EmbeddedServers,
) -> dict[str, Any]:
    with embedded_servers.keeping("created"):
        embedded_servers.put_back("plan")
        client = WaveClient(BatchClient(kept_supplier.copy(), worker_resources), EVENING)
        with client.clock():
            advance_plans(worker_resources.Session)
            client.batches.work()
            advance_plans(worker_resources.Session)
    return kept_plan


@pytest.fixture
def plan(waves: WaveClient, kept_created: dict[str, Any], embedded_servers: EmbeddedServers) -> Plan:
    def make(*, is_created: bool = False) -> Planned:
        embedded_servers.empty()
        embedded_servers.put_back("created" if is_created else "plan")
        planned = Planned(waves, kept_created)
        assert planned.state() == ("RECONCILING" if is_created else "WAITING")
        return planned

    return make


def test_two_sweeps_and_a_person_begin_a_wave_once(waves: WaveClient, plan: Plan) -> None:
    def script() -> Script:
        planned = plan()
        yield {
            "one": [("sweep", planned.sweep), COMMIT],
            "other": [("sweep and commit", at_once(planned.sweep))],
            "person": [("start", planned.act(start_wave)), COMMIT],
        }
        assert (planned.state(), planned.batch().state) == ("RUNNING", "RUNNING")
        assert planned.told("wave.began") == 1

    assert explore(waves.supplier.Session, script) > 10


def test_at_the_end_of_the_window_a_sweep_a_worker_and_a_person_pause_it_once(
    waves: WaveClient, plan: Plan
) -> None:
    def script() -> Script:
        planned = plan()
        with waves.supplier.Session.begin() as session:
            planned.sweep(session)
        with waves.supplier.Session.begin() as session:
            dispatch_chunks(session, 8)
        waves.now = EVENING.replace(day=3, hour=0)
        key = ChunkKey(planned.batch_ids[0], 1)
        run = yield {
            "sweep": [("carry on", planned.sweep), COMMIT],
            "worker": [("read", at_once(lambda session: read_chunk(session, key)))],
            "person": [("pause", planned.act(pause_wave)), COMMIT],
        }
        assert run.results["worker.read"] is None, "nothing begins after the end of the window"
        assert planned.batch().state == "PAUSED"
        waves.sweep()
        assert planned.state() == "PAUSED"
        assert 1 <= planned.told("wave.paused") <= 2, "a person may pause what the window has paused"
        paused_by_person = run.results["person.pause"] and planned.batch().reason is None
        waves.now = EVENING.replace(day=3)
        waves.sweep()
        assert planned.state() == ("PAUSED" if paused_by_person else "RUNNING")

    assert explore(waves.supplier.Session, script) > 10


def test_a_wave_that_is_stopped_while_it_is_reconciled_is_decided_once(waves: WaveClient, plan: Plan) -> None:
    def script() -> Script:
        planned = plan(is_created=True)

        def reconcile(session: Session) -> None:
            while reconcile_piece(session, planned.batch_ids[0]):
                pass
            session.flush()

        run = yield {
            "one": [("reconcile", reconcile), COMMIT],
            "person": [("stop", planned.act(stop_wave, reason="enough")), COMMIT],
            "sweep": [("carry on", at_once(planned.sweep))],
        }
        stopped = run.results["person.stop"]
        assert planned.state() == ("STOPPED" if stopped else "CLEAN")
        assert planned.state(2) in (("STOPPED",) if stopped else ("PLANNED", "WAITING", "RUNNING"))
        assert planned.told("wave.found_clean") <= 1
        assert planned.batch(2).state == ("CANCELLED" if stopped else planned.batch(2).state)

    explore(waves.supplier.Session, script)


@pytest.mark.parametrize("found", ["CLEAN", "DIFFERS"])
def test_no_wave_is_approved_after_the_next_one_has_begun(waves: WaveClient, plan: Plan, found: str) -> None:
    def script() -> Script:
        planned = plan(is_created=True)
        with patch("migration_service.services.waves.sweep.judge") as judged:
            judged.return_value = Verdict(sent=Submitted(open=int(found == "DIFFERS")))
            reconcile_waves(waves.supplier.Session, seconds=60)
        assert planned.state() == found
        run = yield {
            "sweep": [("carry on", planned.sweep), COMMIT],
            "person": [("approve", planned.act(approve_wave, reason="known")), COMMIT],
        }
        waves.sweep()
        is_approved = run.results["person.approve"]
        assert is_approved is (found == "DIFFERS"), "a clean wave of this plan needs no approval"
        assert planned.state(2) == "RUNNING"
        assert planned.decisions() == ["wave.approved", "wave.began"][not is_approved :]

    assert explore(waves.supplier.Session, script) >= 2


def test_of_an_approval_and_a_stop_one_holds(waves: WaveClient, plan: Plan) -> None:
    def script() -> Script:
        planned = plan(is_created=True)
        with patch("migration_service.services.waves.sweep.judge") as judged:
            judged.return_value = Verdict(sent=Submitted(open=1))
            waves.sweep()
        assert planned.state() == "DIFFERS"
        run = yield {
            "one": [("approve", planned.act(approve_wave, reason="known")), COMMIT],
            "other": [("stop", planned.act(stop_wave, reason="wrong")), COMMIT],
        }
        approved, stopped = run.results["one.approve"], run.results["other.stop"]
        assert approved != stopped
        assert planned.state() == ("APPROVED" if approved else "STOPPED")
        assert planned.told("wave.approved") == int(approved)
        assert (planned.batch(2).state == "CANCELLED") == stopped

    assert explore(waves.supplier.Session, script) >= 2
