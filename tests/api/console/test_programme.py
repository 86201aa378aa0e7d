"""The page of a supplier says which steps of the programme are done, and which is next."""

import re

from support.batch_client import BatchClient
from support.console_client import ConsoleClient
from support.undo_client import UndoClient
from support.wave_client import WaveClient

_STEPS = re.compile(r'<ol class="steps">(.*?)</ol>', re.DOTALL)
_STEP = re.compile(r'<li class="([a-z-]+)"')


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
    begun = ["done", "not-done", "not-recorded", "done"]
    assert _states(administrator, batches) == [*begun, "next", *later[5:]]
    batches.run([*accounts, b"{no json"], "dry-run")
    begun[1] = "done"
    plan = waves.plan({"sample": 1}, {"rest": True})
    assert _states(administrator, batches) == [*begun, "done", "next", *later[6:]]
    waves.act(plan, 1, "start")
    waves.run()
    waves.act(plan, 1, "approve", reason="As agreed.")
    assert _states(administrator, batches) == [*begun, "done", "done", "next", *later[7:]]
    waves.run()
    # The line that is no JSON is still open.
    begun += ["done"] * 3
    assert _states(administrator, batches) == [*begun, "next", *later[8:]]
    administrator.act(f"{path}/acknowledgements/new/?batch={staged}", {"reason": "Nobody knows it."})
    begun += ["nothing-to-do", "done", "done"]
    assert _states(administrator, batches) == [*begun, "next", "later"]
    administrator.send(f"{path}/status/", {"status": "Complete"})
    assert _states(administrator, batches) == [*begun, "not-done", "done"]


def test_a_book_that_was_imported_at_once_needs_no_waves_and_is_to_be_reconciled(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    accounts = batches.supplier.accounts(2)
    batches.run(accounts, "dry-run")
    batches.run(accounts, "import")
    nothing = ["nothing-to-do"]
    begun = ["not-recorded", "done", *nothing, "done", *nothing * 5]
    assert _states(administrator, batches) == [*begun, "next", "later", "later"]
    UndoClient(batches.supplier).run(accounts[0]["external_account_number"])
    # Nothing is created of that account any more, so that it is to be migrated.
    begun[4:7] = ["next", "later", "later"]
    assert _states(administrator, batches) == [*begun, "later", "later", "later"]
