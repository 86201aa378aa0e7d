"""`migration-service undo` and `go-live`, with `--json` and for people."""

import json
from datetime import UTC, datetime

from support.batch_client import BatchClient
from support.commands import Run
from support.imported_account import ImportedAccount
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient
from support.wave_client import WaveClient


def _start(run: Run, account: ImportedAccount, *options: str) -> str:
    arguments = ("undo", "start", account.supplier.code, account.number, "--reason", "A test.", "--yes")
    result = run(*arguments, "--json", *options)
    assert result.exit_code == 0, result.output
    return str(json.loads(result.stdout)["undo_id"])


def test_an_account_is_previewed_undone_and_shown(run: Run, account: ImportedAccount) -> None:
    pair = (account.supplier.code, account.number)
    assert "Nothing blocks any of them." in run("undo", "preview", *pair).stdout
    assert json.loads(run("undo", "preview", *pair, "--json").stdout)["revertible"] == 1
    undo_id = _start(run, account)
    UndoClient(account.supplier).work(undo_id)
    shown = json.loads(run("undo", "show", undo_id, "--json").stdout)
    assert (shown["state"], shown["counts"]["REVERTED"]) == ("COMPLETED", 1)
    assert "reverted\t1" in run("undo", "show", undo_id).stdout
    (listed, *_) = run("undo", "list", "--supplier", pair[0], "--json").stdout.splitlines()
    assert json.loads(listed)["undo_id"] == undo_id
    (line,) = run("undo", "results", undo_id).stdout.splitlines()
    assert json.loads(line)["external_account_number"] == account.number
    assert account.number in run("undo", "results", undo_id, "--format", "csv").stdout


def test_people_are_asked_and_may_decline(run: Run, account: ImportedAccount) -> None:
    account.post_notes({"body": "Later."})
    arguments = ("undo", "start", account.supplier.code, account.number, "--reason", "A test.")
    result = run(*arguments, given="n\n")
    assert result.exit_code == 1
    assert "Undo the import of 1 account of" in result.output
    assert "1 account blocked?" in result.output
    assert "Nothing has been undone yet." in run("undo", "list", "--supplier", account.supplier.code).stdout


def test_a_blocked_account_is_kept_unless_it_is_overridden(run: Run, account: ImportedAccount) -> None:
    account.post_notes({"body": "Later."})
    assert "data_added_later" in run("undo", "preview", account.supplier.code, account.number).stdout
    kept = _start(run, account)
    UndoClient(account.supplier).work(kept)
    assert "1 data_added_later" in run("undo", "show", kept).stdout
    asked = ("undo", "start", account.supplier.code, account.number, "--reason", "r")
    assert "blocked" not in run(*asked, "--override", "data_added_later", given="n\n").output
    reverted = _start(run, account, "--override", "data_added_later")
    UndoClient(account.supplier).work(reverted)
    assert "reverted\t1" in run("undo", "show", reverted).stdout
    assert run("undo", "start", "X", "1", "--reason", "r", "--override", "account_erased").exit_code == 2


def test_a_wave_is_previewed_and_undone(run: Run, supplier: SupplierClient, batches: BatchClient) -> None:
    waves = WaveClient(batches)
    waves.stage(2)
    plan = waves.plan({"rest": True})
    assert waves.act(plan, 1, "start").status_code == 200
    waves.run()
    which = (supplier.code, "--wave", plan["plan_id"], "1")
    previewed = run("undo", "preview", *which)
    assert "wave number\t1" in previewed.stdout, previewed.output
    assert json.loads(run("undo", "preview", *which, "--json").stdout)["revertible"] == 2
    started = run("undo", "start", *which, "--reason", "A test.", "--yes", "--json")
    undo_id = json.loads(started.stdout)["undo_id"]
    UndoClient(supplier).work(undo_id)
    shown = json.loads(run("undo", "show", undo_id, "--json").stdout)
    assert (shown["plan_id"], shown["wave_number"]) == (plan["plan_id"], 1)
    assert shown["counts"]["REVERTED"] == 2
    shown_to_people = run("waves", "show", plan["plan_id"]).stdout
    assert "undone" in shown_to_people
    batch = run("batches", "show", plan["waves"][0]["batch_id"]).stdout
    assert "undone\t2" in batch
    assert "existing\t0" in batch
    again = run("undo", "start", *which, "--reason", "r")
    assert "?" not in again.output
    assert "no account that exists" in again.output
    assert again.exit_code == 1
    missing = run("undo", "preview", supplier.code, "--wave", plan["plan_id"], "2")
    assert "has no wave" in missing.output
    assert missing.exit_code == 1
    both = run("undo", "preview", *which, "--batch", plan["waves"][0]["batch_id"])
    assert "exactly one" in both.output
    assert both.exit_code == 2


def test_an_undo_is_cancelled(run: Run, account: ImportedAccount) -> None:
    undo_id = _start(run, account)
    assert "is now CANCELLED" in run("undo", "cancel", undo_id).stdout
    listed = run("audit", "list", "--action", "undo.cancelled", "--limit", "1", "--json").stdout
    assert (json.loads(listed)["subject"], json.loads(listed)["actor_kind"]) == (undo_id, "system_user")
    again = run("undo", "cancel", undo_id)
    assert "CANCELLED" in again.output
    assert again.exit_code == 1


def test_go_live_is_set_changed_and_then_final(run: Run, account: ImportedAccount) -> None:
    code, year = account.supplier.code, datetime.now(UTC).year + 2
    future = ("go-live", code, "--at", f"{year}-01-01T06:00:00+02:00")
    assert run(*future, given="n\n").exit_code == 1
    asked = run(*future, given="y\n")
    assert f"From {year}-01-01 04:00:00 UTC, import supplier" in asked.stderr
    assert "It has 1 account now." in asked.stderr
    assert f"goes live at {year}-01-01 04:00:00 UTC" in asked.stdout
    assert _start(run, account)
    later = ("--at", f"{year}-02-01T06:00:00+01:00", "--yes", "--json")
    moved = json.loads(run("go-live", code, *later).stdout)
    assert (moved["live_at"], moved["accounts"]) == (f"{year}-02-01T05:00:00Z", 1)
    assert f"UTC instead of at {year}-02-01 05:00:00 UTC" in run(*future, given="n\n").stderr
    now = run("go-live", code, given="n\n").stderr
    assert "its 1 account can never be undone" in now
    undo, reconcile = "        1  Undos that run\n", "        1  Created accounts that have not been compared"
    assert now.startswith(f"Still open:\n{undo}{reconcile}")
    far = run("go-live", code, "--at", "2207-01-01T06:00:00Z", "--yes")
    assert "is more than five years from now" in far.stderr
    assert far.exit_code == 1


def test_a_moment_that_cannot_be_read_is_answered_with_an_example(run: Run) -> None:
    refused = run("go-live", "ANY", "--at", "1 March")
    assert "'1 March' is not a date such as 2027-03-01T06:00:00Z." in refused.stderr
    assert refused.exit_code == 2


def test_a_go_live_in_the_past_is_confirmed_and_final(run: Run, account: ImportedAccount) -> None:
    code = account.supplier.code
    past = ("go-live", code, "--at", "2026-03-01T06:00:00Z")
    refused = run(*past, given="n\n")
    assert "2026-03-01 06:00:00 UTC is in the past" in refused.stderr
    assert refused.exit_code == 1
    unasked = run(*past, "--yes")
    assert "Add --in-the-past" in unasked.stderr
    assert unasked.exit_code == 2
    assert _start(run, account)
    assert "went live at 2026-03-01" in run(*past, "--yes", "--in-the-past", "--by", "Ada").stdout
    (listed,) = run("audit", "list", "--action", "import_supplier.live_set", "--json").stdout.splitlines()
    told = json.loads(listed)
    assert (told["actor_kind"], told["details"]["by"]) == ("system_user", "Ada")
    final = run("go-live", code)
    assert "went live" in final.output
    assert final.exit_code == 1
    for options in ([], ["--yes"]):
        refused = run("undo", "start", code, account.number, "--reason", "r", *options)
        assert "gone live" in refused.output
        assert "?" not in refused.output
        assert refused.exit_code == 1
    assert "live at\t2026-03-01 06:00:00 UTC" in run("suppliers", "show", code).stdout


def test_options_that_contradict_each_other_are_refused(run: Run, account: ImportedAccount) -> None:
    assert run("undo", "preview", account.supplier.code).exit_code == 2
    both = run("undo", "preview", account.supplier.code, account.number, "--batch", "x")
    assert both.exit_code == 2
    for arguments in (("show", "x"), ("results", "\x1b[2J"), ("cancel", "x")):
        result = run("undo", *arguments)
        assert "does not exist" in result.output
        assert result.exit_code == 1
        assert "\x1b" not in result.output
    assert run("go-live", "NOBODY", "--yes").exit_code == 1
