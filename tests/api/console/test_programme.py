"""The page of a supplier says which steps of the programme are done, and which is next."""

import re
from collections.abc import Iterator

import pytest

from support.batch_client import BatchClient
from support.console_client import ConsoleClient
from support.wave_client import WaveClient

_STEPS = re.compile(r'<ol class="steps">(.*?)</ol>', re.DOTALL)
_STEP = re.compile(r'<li class="([a-z-]+)"')


@pytest.fixture
def waves(batches: BatchClient) -> Iterator[WaveClient]:
    client = WaveClient(batches)
    with client.clock():
        yield client


def _states(client: ConsoleClient, batches: BatchClient) -> list[str]:
    (steps,) = _STEPS.findall(client.see(f"/suppliers/{batches.supplier.code}/"))
    return [str(state) for state in _STEP.findall(steps)]


def test_the_steps_lead_through_a_programme(
    administrator: ConsoleClient, batches: BatchClient, waves: WaveClient
) -> None:
    accounts = batches.supplier.accounts(3)
    path = f"/suppliers/{batches.supplier.code}"
    later = ["later"] * 12
    assert _states(administrator, batches) == ["next", *later[1:]]
    batches.run([*accounts, b"{no json"], "validate")
    assert _states(administrator, batches) == ["done", "next", *later[2:]]
    staged = batches.run([*accounts, b"{no json"], "stage")["batch_id"]
    assert _states(administrator, batches) == ["done", "left-out", "left-out", "done", "next", *later[5:]]
    batches.run([*accounts, b"{no json"], "dry-run")
    plan = waves.plan({"sample": 1}, {"rest": True})
    assert _states(administrator, batches) == [*["done"] * 5, "next", *later[6:]]
    waves.act(plan, 1, "start")
    waves.run()
    waves.act(plan, 1, "approve", reason="As agreed.")
    assert _states(administrator, batches) == [*["done"] * 6, "next", *later[7:]]
    waves.act(plan, 2, "start")
    waves.run()
    # The line that is no JSON is still open.
    assert _states(administrator, batches) == [*["done"] * 7, "next", *later[8:]]
    administrator.act(f"{path}/acknowledgements/new/?batch={staged}", {"reason": "Nobody knows it."})
    assert _states(administrator, batches) == [*["done"] * 10, "next", "later"]
    administrator.send(f"{path}/status/", {"status": "Complete"})
    assert _states(administrator, batches) == [*["done"] * 10, "left-out", "done"]
