"""When a page asks again."""

import pytest

from migration_service.blueprints.console import polling
from migration_service.blueprints.console.polling import BUSY, CALM
from support.batch_client import BatchClient
from support.console_client import ConsoleClient
from support.undo_client import UndoClient
from support.wave_client import WaveClient

NEVER = 0


@pytest.fixture(autouse=True)
def _answers_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that takes long is asked for less often (test_polling.py in tests/unit)."""
    monkeypatch.setattr(polling, "SHARE", 100.0)


def _waits(client: ConsoleClient, *paths: str) -> list[int]:
    return [int(client.get(path).headers["X-Poll-After"]) for path in paths]


def test_batches_and_undos(administrator: ConsoleClient, batches: BatchClient) -> None:
    supplier = f"/suppliers/{batches.supplier.code}/"
    batch_id = batches.start(batches.supplier.accounts(1))
    pages = (f"/batches/{batch_id}/", supplier, "/")
    assert _waits(administrator, *pages, "/undos/") == [BUSY, BUSY, BUSY, NEVER]
    administrator.send(f"{supplier}status/", {"status": "Paused"})
    assert batches.get(batch_id)["state"] == "WAITING"
    assert _waits(administrator, *pages) == [CALM, CALM, CALM]
    administrator.send(f"{supplier}status/", {"status": "Ongoing"})
    batches.work()
    assert _waits(administrator, *pages) == [NEVER, CALM, CALM]

    undo = administrator.send(f"{pages[0]}undo/", {"reason": "Again."}).location.removeprefix("/console")
    assert _waits(administrator, undo, "/undos/") == [BUSY, CALM]
    UndoClient(batches.supplier).work(undo.split("/")[-2])
    assert _waits(administrator, undo, "/undos/") == [NEVER, NEVER]


def test_waves(administrator: ConsoleClient, waves: WaveClient) -> None:
    waves.stage(2)
    plan = waves.plan({"size": 1}, {"rest": True})
    path = f"/waves/{plan['plan_id']}/"
    pages = ("/waves/", path, f"{path}1/", f"{path}2/")
    assert _waits(administrator, *pages) == [CALM] * 4
    waves.act(plan, 1, "start")
    assert _waits(administrator, *pages) == [BUSY, BUSY, BUSY, CALM]
    waves.run()
    assert _waits(administrator, *pages) == [CALM] * 4
    waves.act(plan, 1, "reconcile")
    assert waves.states(plan)[0] == "RECONCILING"
    assert _waits(administrator, *pages) == [BUSY, BUSY, BUSY, CALM]
    waves.run()
    waves.act(plan, 1, "approve", reason="It is right.")
    assert _waits(administrator, *pages) == [CALM, CALM, NEVER, CALM]
    waves.act(plan, 2, "stop", reason="Enough.")
    assert _waits(administrator, *pages) == [NEVER] * 4
