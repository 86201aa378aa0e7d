"""`migration-service waves`, with `--json` and for people."""

import json
import re
from typing import Any

import pytest
from click.testing import Result

from support.batch_client import BatchClient
from support.commands import Run
from support.undo_client import UndoClient
from support.wave_client import WaveClient


@pytest.fixture
def waves(batches: BatchClient) -> WaveClient:
    client = WaveClient(batches)
    client.stage(4)
    return client


@pytest.fixture
def run(run: Run) -> Run:
    def run_waves(*arguments: str, given: Any = None) -> Result:
        text = None if given is None else given if isinstance(given, str) else json.dumps(given)
        return run("waves", *arguments, given=text)

    return run_waves


def _body(waves: WaveClient, *given: dict[str, Any], **more: Any) -> dict[str, Any]:
    supplier = waves.supplier
    return {"import_supplier": supplier.code, "operations_team_name": supplier.team, "waves": given, **more}


def test_a_plan_goes_through_all_its_commands(run: Run, waves: WaveClient) -> None:
    pilot = {"sample": 2, "name": "Pilot", "continue_if_clean": False}
    given = _body(waves, pilot, {"rest": True}, continue_if_clean=True)
    planned = run("plan", "-", "--json", given=given)
    plan_id = json.loads(planned.stdout)["plan_id"]
    shown = run("show", plan_id).stdout
    assert "Pilot\tWAITING for somebody to start it\t2" in shown
    assert [shown.count(it) for it in ("\ta person decides\t", "\tcontinues\t")] == [1, 1]
    for command, state in (("start", "RUNNING"), ("pause", "PAUSED"), ("resume", "RUNNING")):
        assert json.loads(run(command, plan_id, "1", "--json").stdout)["state"] == state
    waves.run()
    assert run("reconcile", plan_id, "1").stdout == f"Wave 1 of {plan_id} is now RECONCILING.\n"
    waves.run()
    refused = run("approve", plan_id, "1")
    assert "--reason" in refused.stderr
    assert refused.exit_code == 2
    for blank in (("--reason", "  "), ("--reason", "All right", "--by", " ")):
        refused = run("approve", plan_id, "1", *blank)
        assert "It is blank." in refused.stderr
        assert refused.exit_code == 2
    approved = run("approve", plan_id, "1", "--reason", "All right", "--by", "Ada Lovelace")
    assert "APPROVED" in approved.stdout
    first, second = json.loads(run("show", plan_id, "--json").stdout)["waves"]
    assert (first["decided_by"], first["decision_reason"]) == ("Ada Lovelace", "All right")
    assert json.loads(run("stop", plan_id, "2", "--reason", "Enough", "--json").stdout)["state"] == "STOPPED"
    listed = json.loads(run("list", "--supplier", waves.supplier.code, "--json").stdout)
    assert (listed["waves"], listed["finished_at"] is not None) == ("APPROVED, STOPPED", True)
    assert second["batch_id"]


def test_a_wave_that_was_undone_is_not_shown_as_done(run: Run, waves: WaveClient) -> None:
    plan_id = json.loads(run("plan", "-", "--json", given=_body(waves, {"rest": True})).stdout)["plan_id"]
    run("start", plan_id, "1")
    waves.run()
    for exist, undone, state in ((4, "-", "CLEAN"), (0, "4", "CLEAN, 4 undone")):
        header, row = (line.split("\t") for line in run("show", plan_id).stdout.splitlines()[-2:])
        shown = dict(zip(header, row, strict=False))
        assert (shown["accounts"], shown["done"], shown["existing"]) == ("4", str(exist), str(exist))
        assert (shown["undone"], shown["state"]) == (undone, state), "also before the next sweep"
        found = r"0 differ, 0 open at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
        assert re.fullmatch(found, shown["reconciliation"])
        if exist:
            UndoClient(waves.supplier).run(batch=shown["batch id"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "parse_error at file"),
        ([], "not_a_dict"),
        ({"waves": []}, "required at import_supplier"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_with_every_error(run: Run, given: Any, said: str) -> None:
    result = run("plan", "-", given=given)
    assert said in result.stderr
    assert result.exit_code == 1, result.stderr


def test_there_may_be_no_plans(run: Run) -> None:
    assert "There are no wave plans yet" in run("list").stdout
    result = run("start", "nothing", "1")
    assert "does not exist" in result.stderr
    assert result.exit_code == 1
