"""`migration-service go-live`, with `--json` and for people."""

import json
from datetime import UTC, datetime

from support.commands import Run
from support.imported_account import ImportedAccount
from support.undo_client import UndoClient


def test_go_live_is_set_changed_and_then_final(run: Run, account: ImportedAccount) -> None:
    code, year = account.supplier.code, datetime.now(UTC).year + 2
    future = ("go-live", code, "--at", f"{year}-01-01T06:00:00+02:00")
    assert run(*future, given="n\n").exit_code == 1
    asked = run(*future, given="y\n")
    assert f"From {year}-01-01 04:00:00 UTC, import supplier" in asked.stderr
    assert "It has 1 account now." in asked.stderr
    assert f"goes live at {year}-01-01 04:00:00 UTC" in asked.stdout
    assert UndoClient(account.supplier).start(account.number)
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
    assert UndoClient(account.supplier).start(account.number)
    assert "went live at 2026-03-01" in run(*past, "--yes", "--in-the-past", "--by", "Ada").stdout
    (listed,) = run("audit", "list", "--action", "import_supplier.live_set", "--json").stdout.splitlines()
    told = json.loads(listed)
    assert (told["actor_kind"], told["details"]["by"]) == ("system_user", "Ada")
    final = run("go-live", code)
    assert "went live" in final.output
    assert final.exit_code == 1
    refused_undo = UndoClient(account.supplier).post(account.number)
    assert (refused_undo.json or {})["code"] == "import_supplier_live"
    assert "live at\t2026-03-01 06:00:00 UTC" in run("suppliers", "show", code).stdout
    assert run("go-live", "NOBODY", "--yes").exit_code == 1
