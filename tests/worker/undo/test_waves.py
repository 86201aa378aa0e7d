"""Undoing waves: their plan holds meanwhile, and the wave is decided about once more afterwards."""

from collections.abc import Iterator
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import update

from migration_service.errors import WaveStateError
from migration_service.models import Batch, BatchChunk, WavePlan
from migration_service.services.batches.intake import upload as batch_upload
from migration_service.services.batches.work.execution import perform_chunk
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import start_undo
from migration_service.services.waves.sweep import advance_plan
from migration_service.states import UndoState
from support.interleavings import COMMIT, Script, explore
from support.undo_client import UndoClient
from support.wave_client import DAY, EVENING, NIGHT, NOON, WaveClient

pytestmark = pytest.mark.usefixtures("neighbour")


@pytest.fixture(autouse=True)
def _short_chunks() -> Iterator[None]:
    with patch.object(batch_upload, "CHUNK_LINES", 5):
        yield


def _pilot(waves: WaveClient, beginning: str = "", **more: Any) -> dict[str, Any]:
    """Return a plan of two waves. The first one, of four accounts, is created and CLEAN."""
    for account in waves.supplier.accounts(6):
        account["external_account_number"] = f"{beginning}{account['external_account_number']}"
        assert waves.supplier.stage(account).status_code == 201
    plan = waves.plan({"size": 4}, {"rest": True, "window": NIGHT}, **more)
    assert waves.act(plan, 1, "start").status_code == 200
    waves.run()
    assert waves.states(plan)[0] == "CLEAN"
    return plan


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_wave_between_two_windows_waits_for_a_person_once_it_is_undone(
    waves: WaveClient, undos: UndoClient, *, is_followed: bool
) -> None:
    waves.stage(7)
    plan = waves.plan({"rest": True, "window": NIGHT})
    waves.now = EVENING
    waves.sweep()
    batches = waves.batches
    for chunk in batches.dispatch():
        assert perform_chunk(batches.resources.Session, batches.resources.slots, chunk, reserve=50)
        waves.now = NOON + DAY
    if is_followed:
        waves.sweep()
    assert batches.get(plan["waves"][0]["batch_id"])["reason"] == "window_closed"
    assert undos.run(wave={"plan_id": plan["plan_id"], "number": 1})["counts"]["REVERTED"] == 5
    waves.now = EVENING + DAY
    waves.run()
    wave = waves.get(plan)["waves"][0]
    assert (wave["state"], wave["reason"], wave["reverted"]) == ("PAUSED", None, 5)
    assert waves.act(plan, 1, "resume").status_code == 200
    with waves.supplier.Session.begin() as session:
        dispatched = update(BatchChunk).where(BatchChunk.state == "DISPATCHED")
        session.execute(dispatched.values(state="PENDING"))
    waves.run()
    wave = waves.get(plan)["waves"][0]
    assert (wave["state"], wave["open"], wave["counts"]["IMPORTED"]) == ("DIFFERS", 5, 7)


def test_a_sweep_and_an_undo_at_once_never_let_a_wave_begin_that_is_held(waves: WaveClient) -> None:
    client = UndoClient(waves.supplier)
    orders = count(1)

    def script() -> Script:
        waves.now = NOON
        plan = _pilot(waves, f"order {next(orders)} ", continue_if_clean=True)
        waves.sweep()
        waves.now = EVENING

        def undo(session: Any) -> str:
            known, batch = waves.supplier.known(), session.get_one(Batch, waves.batch_id(plan, 1))
            return str(start_undo(session, UndoOrder(supplier=known, batch=batch, reason="A test.")))

        def sweep(session: Any) -> None:
            advance_plan(session, session.get_one(WavePlan, plan["plan_id"]).id)
            session.flush()

        run = yield {"sweep": [("carry on", sweep), COMMIT], "person": [("undo", undo), COMMIT]}
        undo_id = run.results["person.undo"]
        is_refused = isinstance(undo_id, WaveStateError)
        assert list(run.errors) == ["person.undo"] * is_refused
        assert waves.states(plan)[1] == ("RUNNING" if is_refused else "WAITING")
        if not is_refused:
            client.work(undo_id)
            assert client.get(undo_id)["state"] == UndoState.COMPLETED
        assert waves.act(plan, 2, "stop", reason="The next order.").status_code == 200
        waves.run()
        for wave in waves.get(plan)["waves"]:
            if wave["state"] not in ("STOPPED", "CLEAN"):
                waves.act(plan, wave["number"], "approve", reason="The next order.")
        waves.sweep()

    assert explore(waves.supplier.Session, script, may_raise=True) > 3
