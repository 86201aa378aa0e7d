"""Each form says how many things it touches, and does what it says."""

from support.batch_client import BatchClient
from support.console_client import ConsoleClient
from support.messages import Message, noted_messages
from support.wave_client import WaveClient


def test_workers_are_told_at_once_of_what_a_form_begins(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    good, faulty = batches.supplier.accounts(2)
    faulty["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    batch_id = str(batches.run([good, faulty])["batch_id"])
    supplier, batch = f"/suppliers/{batches.supplier.code}/", f"/batches/{batch_id}/"
    status, retry = f"{supplier}status/", f"{batch}retry/?everything=1"
    chunk, team = ("batches.run_chunk", (batch_id, 1)), batches.supplier.team
    with noted_messages() as messages:

        def told(path: str, **fields: str) -> list[Message]:
            messages.clear()
            administrator.act(path, fields)
            return list(messages)

        assert told(retry) == [chunk]
        batches.work()
        assert told(status, status="Paused") == []
        assert told(retry) == []
        assert told(status, status="Ongoing") == [chunk]
        batches.work()
        told(status, status="Paused")
        told(retry)
        told(f"{batch}pause/")
        assert told(status, status="Ongoing") == []
        assert told(f"{batch}resume/") == [chunk]
        batches.work()
        assert [task for task, _args in told(f"{batch}repeat/stage/", team=team)] == [chunk[0]]
        undo = f"{supplier}accounts/{good['external_account_number']}/undo/"
        assert [task for task, _args in told(undo, reason="Again.")] == ["undos.revert_accounts"]


def test_workers_are_told_at_once_of_a_wave_that_starts(
    administrator: ConsoleClient, waves: WaveClient
) -> None:
    waves.stage(1)
    plan = waves.plan({"rest": True})
    with noted_messages() as messages:
        administrator.act(f"/waves/{plan['plan_id']}/1/start/")
    assert messages == [("batches.run_chunk", (waves.get(plan)["waves"][0]["batch_id"], 1))]
