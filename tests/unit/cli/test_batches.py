"""`migration-service batches` and `reconcile`, with `--json` and for people."""

import gzip
import json
import time
from datetime import date
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select, update

from migration_payloads.schemas.json import parse_json
from migration_service.cli import batch_progress
from migration_service.models import Account, Ledger, Statement
from migration_service.services.reconciliation.differences import NOT_COMPARED
from support.batch_client import BatchClient, ndjson
from support.commands import Run


def _start(run: Run, batches: BatchClient, accounts: Any, *arguments: str, mode: str = "import") -> str:
    supplier = batches.supplier
    given = ("--supplier", supplier.code, "--team", supplier.team, "--mode", mode, "--json", *arguments)
    result = run("batches", "start", "-", *given, given=ndjson(accounts))
    assert result.exit_code == 0, result.output
    return str(json.loads(result.stdout)["batch_id"])


def _audit(run: Run, action: str, subject: str) -> list[Any]:
    """Return the entries of the audit of this action about a subject."""
    listed = run("audit", "list", "--action", action, "--limit", "1000", "--json").stdout.splitlines()
    return [entry for entry in map(json.loads, listed) if entry["subject"] == subject]


def test_a_file_is_started_from_disk_and_from_standard_input(
    run: Run, batches: BatchClient, tmp_path: Path
) -> None:
    accounts = batches.supplier.accounts(3)
    file = tmp_path / "book.ndjson.gz"
    file.write_bytes(ndjson(accounts, compress=True))
    result = run("batches", "start", str(file), "--supplier", batches.supplier.code, "--mode", "stage")
    assert "was started: batches watch" in result.stdout
    assert result.exit_code == 0
    batches.work()
    batch_id = _start(run, batches, accounts)
    batches.work()
    shown = json.loads(run("batches", "show", batch_id, "--json").stdout)
    assert (shown["state"], shown["counts"]["IMPORTED"]) == ("COMPLETED", 3)
    (entry,) = _audit(run, "batch.ordered", batch_id)
    assert (entry["actor_kind"], entry["organisation"]) == ("system_user", batches.supplier.organisation)
    assert entry["details"] == {"mode": "import", "kind": "accounts"}
    for_people = run("batches", "show", batch_id).stdout
    assert "COMPLETED" in for_people
    listed = run("batches", "list", "--supplier", batches.supplier.code, "--json").stdout.splitlines()
    assert [(item["mode"], item["done"]) for item in map(json.loads, listed)] == [("import", 3), ("stage", 3)]


def test_watch_exits_with_1_if_a_line_failed_and_otherwise_with_0(run: Run, batches: BatchClient) -> None:
    for accounts, status in ((batches.supplier.accounts(2), 0), ([b"{}"], 1)):
        batch_id = _start(run, batches, accounts, mode="validate")
        batches.work()
        result = run("batches", "watch", batch_id, "--json")
        assert (result.exit_code, json.loads(result.stdout)["state"]) == (status, "COMPLETED")


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_watch_shows_the_progress_until_the_batch_is_over(
    run: Run, batches: BatchClient, monkeypatch: pytest.MonkeyPatch, *, on_a_terminal: bool
) -> None:
    batch_id = _start(run, batches, [*batches.supplier.accounts(1), b"{"], mode="validate")
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _seconds: batches.work())
    monkeypatch.setattr(batch_progress, "time", clock)
    if on_a_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
    watched = run("batches", "watch", batch_id)
    assert watched.exit_code == 1
    assert "RUNNING, 0/2 lines, 0 failed" in watched.stderr
    if on_a_terminal:
        assert "COMPLETED, 2/2 lines, 1 failed" in watched.stderr
        assert "parse_error" in watched.stderr


def test_a_batch_is_paused_resumed_retried_and_cancelled(run: Run, batches: BatchClient) -> None:
    batch_id = _start(run, batches, [*batches.supplier.accounts(1), b"{"])
    for command, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        assert json.loads(run("batches", command, batch_id, "--json").stdout)["state"] == state
    batches.work()
    retried = json.loads(run("batches", "retry-failed", batch_id, "--json").stdout)
    assert retried == {"batch_id": batch_id, "retried": 0, "left": 1}
    assert "1 line left as failed" in run("batches", "retry-failed", batch_id).stdout
    retried = json.loads(run("batches", "retry-failed", batch_id, "--all", "--json").stdout)
    assert retried == {"batch_id": batch_id, "retried": 1, "left": 0}
    assert json.loads(run("batches", "cancel", batch_id, "--json").stdout)["state"] == "CANCELLED"
    refused = run("batches", "resume", batch_id)
    assert "CANCELLED" in refused.stderr
    assert refused.exit_code == 1


def test_a_batch_beyond_its_threshold_is_not_waited_for(run: Run, batches: BatchClient) -> None:
    batch_id = _start(run, batches, [b"{"] * 500, "--stop-after-errors", "5%", "--stop-window", "50")
    shown = json.loads(run("batches", "show", batch_id, "--json").stdout)
    assert (shown["brake"]["stop_after_errors"], shown["brake"]["stop_window_lines"]) == ("5%", 50)
    batches.work()
    watched = run("batches", "watch", batch_id)
    assert "error_threshold_reached" in watched.stdout
    assert watched.exit_code == 1
    told = run("batches", "show", batch_id).stdout
    now = "now 100 errors in 100 lines, counted in whole chunks: parse_error 100"
    assert f"5% of the last 50 lines failed ({now})" in told
    ignored = ("--stop-ignore", "parse_error", "--stop-ignore", "blank")
    counted = ("--stop-count-warnings", "ledger_missing")
    changed = run("batches", "error-threshold", batch_id, "9", *ignored, *counted)
    told = (
        "paused when 9 lines failed, not counting parse_error, blank, counting lines with ledger_missing, too"
    )
    assert told in changed.stdout
    shown = json.loads(run("batches", "show", batch_id, "--json").stdout)
    assert (shown["brake"]["lines"], shown["brake"]["errors"]) == (100, 0)
    refused = run("batches", "error-threshold", batch_id, "9", "--stop-min-lines", "10")
    assert "stop_min_lines" in refused.stderr
    assert refused.exit_code == 1
    assert json.loads(run("batches", "brake", batch_id, "off", "--json").stdout)["brake"] is None


def test_results_are_written_as_ndjson_and_csv(run: Run, batches: BatchClient) -> None:
    batch_id = _start(run, batches, [*batches.supplier.accounts(2), b"{"], mode="validate")
    batches.work()
    lines = run("batches", "results", batch_id, "--status", "FAILED").stdout.splitlines()
    assert [json.loads(line)["line_number"] for line in lines] == [3]
    rows = run("batches", "results", batch_id, "--format", "csv").stdout.splitlines()
    assert rows[0].startswith('"line_number","external_account_number","status"')
    assert len(rows) == 4
    rows = run("batches", "results", batch_id, "--format", "csv", "--code", "parse_error").stdout.splitlines()
    assert len(rows) == 2
    assert run("batches", "failed-lines", batch_id).stdout == "{\n"


def test_a_batch_shows_its_own_name_and_that_of_its_file(
    run: Run, batches: BatchClient, tmp_path: Path
) -> None:
    file = tmp_path / "book.ndjson"
    file.write_bytes(ndjson(batches.supplier.accounts(1)))
    given = ("--supplier", batches.supplier.code, "--mode", "validate", "--name", "First", "--json")
    started = json.loads(run("batches", "start", str(file), *given, "--profile", "strict").stdout)
    shown = json.loads(run("batches", "show", started["batch_id"], "--json").stdout)
    assert (shown["name"], shown["file_name"], shown["profile"]) == ("First", "book.ndjson", "strict")
    sent = (sha256(file.read_bytes()).hexdigest(), file.stat().st_size)
    assert (shown["file_sha256"], shown["file_bytes"]) == sent
    packed = gzip.compress(file.read_bytes())
    piped = json.loads(run("batches", "start", "-", *given, given=packed).stdout)
    assert sha256(packed).hexdigest() in run("batches", "show", piped["batch_id"]).stdout
    assert "First" in run("batches", "list", "--supplier", batches.supplier.code).stdout


def test_control_totals_of_a_file_come_from_check_and_are_compared_with_another(
    run: Run, batches: BatchClient, tmp_path: Path
) -> None:
    book, lost, totals = (tmp_path / name for name in ("book.ndjson", "lost.ndjson", "totals.json"))
    accounts = batches.supplier.accounts(3)
    book.write_bytes(ndjson(accounts))
    lost.write_bytes(ndjson(accounts[:2]))
    checked = run("check", str(book), "--totals", str(totals), "--processes", "1", "--json")
    given = json.loads(totals.read_text())
    assert given["accounts"] == 3
    assert json.loads(checked.stdout)["totals"] == given | {"unreadable_lines": 0, "unreadable_amounts": 0}
    asked = (
        "--supplier",
        batches.supplier.code,
        "--mode",
        "validate",
        "--json",
        "--control-totals",
        str(totals),
    )
    for file, status, says in (
        (book, 0, "All control totals match the file."),
        (lost, 1, "totals different from the file."),
    ):
        batch_id = json.loads(run("batches", "start", str(file), *asked).stdout)["batch_id"]
        shown = run("batches", "control-totals", batch_id)
        assert says in shown.stdout
        assert shown.exit_code == status
        assert (
            bool(json.loads(run("batches", "show", batch_id, "--json").stdout)["control_totals_differing"])
            == status
        )
    assert "accounts\t3\t2\t-1\n" in shown.stdout
    whole = run("reconcile", batches.supplier.code)
    assert "1 file does not match its control totals." in whole.stdout
    assert whole.exit_code == 1
    given_later = run("batches", "control-totals", batch_id, "-", "--json", given='{"accounts": 2}')
    assert (given_later.exit_code, json.loads(given_later.stdout)["differing"]) == (0, 0)
    assert run("reconcile", batches.supplier.code).exit_code == 0
    assert (
        "Control totals: they match the file."
        in run("reconcile", batches.supplier.code, "--batch", batch_id).stdout
    )
    wrong = run("batches", "start", str(book), *asked[:-1], "-", given='{"acounts": 2}')
    assert "did you mean accounts" in wrong.stderr
    assert wrong.exit_code == 1
    nothing = run(
        "batches",
        "start",
        "--pending",
        "--team",
        batches.supplier.team,
        *asked[:2],
        "--mode",
        "import",
        *asked[5:],
    )
    assert "Only a file of accounts" in nothing.stderr
    assert nothing.exit_code == 1


def test_nothing_is_said_to_be_as_given_of_a_file_that_cannot_be_read_completely(
    run: Run, batches: BatchClient, tmp_path: Path
) -> None:
    book, totals, supplier = tmp_path / "book.ndjson", tmp_path / "totals.json", batches.supplier.code
    (account,) = batches.supplier.accounts(1)
    account["ledgers"] = [{"ledger_code": "E", "ledger_balance": "10,00"}]
    book.write_bytes(ndjson([account, b"{"]))
    checked = run("check", str(book), "--totals", str(totals), "--processes", "1")
    assert "1 line and 1 amount could not be read, so the totals" in checked.stdout
    in_json = run("check", str(book), "--totals", str(totals), "--processes", "1", "--json")
    assert "1 line and 1 amount could not be read, so the totals" in in_json.stderr
    asked = ("--supplier", supplier, "--mode", "stage", "--json", "--control-totals", str(totals))
    batch_id = json.loads(run("batches", "start", str(book), *asked).stdout)["batch_id"]
    shown = run("batches", "control-totals", batch_id)
    says = "The part of the file that could be read matches. 1 line and 1 amount could not be read."
    assert says in shown.stdout
    assert shown.exit_code == 1
    report = json.loads(run("batches", "control-totals", batch_id, "--json").stdout)
    assert (report["differing"], report["as_given"]) == (0, False)
    assert json.loads(run("batches", "show", batch_id, "--json").stdout)["control_totals_as_given"] is False
    batches.work()
    number, why = account["external_account_number"], ("--reason", "Stays out", "--by", "Ada")
    for accepted in ((number,), ("--batch", batch_id)):
        assert run("acknowledgements", "add", supplier, *accepted, *why).exit_code == 0
    reconciled = run("reconcile", supplier, "--batch", batch_id)
    assert "Nothing is open." in reconciled.stdout
    assert reconciled.exit_code == 1
    assert "they match the part of the file that could be read." in reconciled.stdout
    assert "as far as the file can be read" in run("reconcile", supplier).stdout


def test_a_number_that_json_does_not_have_is_a_text(run: Run, batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account | {"ledgers": [{"ledger_code": "E", "ledger_balance": 10}]}])
    with batches.supplier.Session.begin() as session:
        session.execute(update(Ledger).values(ledger_balance="NaN"))
    shown = run("reconcile", batches.supplier.code, "--json")
    lines = [parse_json(line.encode()) for line in shown.stdout.splitlines()]
    assert (lines[1]["differences"][0]["created"], lines[-1]["differing"]) == ("NaN", 1)


def test_refused_lines_of_added_data_are_open_until_they_are_acknowledged(
    run: Run, batches: BatchClient
) -> None:
    names = {"import_supplier": batches.supplier.code, "external_account_number": "nobody"}
    batch_id = batches.run([{**names, "notes": [{"body": "Lost."}]}], kind="notes")["batch_id"]
    for of in ((), ("--batch", batch_id)):
        shown = run("reconcile", batches.supplier.code, *of)
        assert (shown.exit_code, "1 item open" in shown.stdout) == (1, True)
    reason = ("--reason", "Sent again.", "--by", "Ada")
    done = run("acknowledgements", "add", batches.supplier.code, "--batch", batch_id, "--line", "1", *reason)
    assert done.exit_code == 0, done.output
    for of in ((), ("--batch", batch_id)):
        assert run("reconcile", batches.supplier.code, *of).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("start", "--supplier", "S", "--mode", "validate"),
        ("start", "-", "--pending", "--supplier", "S", "--mode", "validate"),
    ],
)
def test_options_that_contradict_each_other_are_refused(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("batches", *arguments, given=b"{}").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-", "--mode", "import"), "required at operations_team_name"),
        (("--pending", "--mode", "stage"), "invalid_choice at mode"),
        (("-", "--mode", "validate", "--idempotency-key", "k" * 129), "invalid at Idempotency-Key"),
    ],
)
def test_requests_are_refused_with_the_same_codes_as_by_the_interface(
    run: Run, arguments: tuple[str, ...], code: str
) -> None:
    result = run("batches", "start", "--supplier", "S", *arguments, given=b"{}")
    assert code in result.stderr
    assert result.exit_code == 1


def test_the_exit_status_of_reconcile_is_0_1_or_2(run: Run, batches: BatchClient, tmp_path: Path) -> None:
    accounts = batches.supplier.accounts(3)
    batch_id = _start(run, batches, accounts[:2])
    batches.work()
    id_map = tmp_path / "map.csv"
    result = run("reconcile", batches.supplier.code, "--id-map", str(id_map))
    assert "are clean" in result.stdout
    assert result.exit_code == 0
    assert len(id_map.read_text().splitlines()) == 3

    batches.supplier.stage(accounts[2])
    result = run("reconcile", batches.supplier.code, "--json")
    sent, item, book, totals = map(json.loads, result.stdout.splitlines())
    assert {row["measure"]: row["staged"] for row in book["book"]["totals"]}["accounts"] == 1
    assert (result.exit_code, sent["sent"]["open"], totals["created_clean"]) == (1, 1, True)
    assert item["external_account_number"] == accounts[2]["external_account_number"]
    assert len(_audit(run, "batch.results_read", batches.supplier.code)) == 1
    assert run("reconcile", batches.supplier.code, "--batch", batch_id).exit_code == 0
    assert run("reconcile", batches.supplier.code, "--created-only").exit_code == 0
    assert "1 item open" in run("reconcile", batches.supplier.code).stdout

    for arguments in (("NOBODY",), (batches.supplier.code, "--batch", "nothing")):
        assert run("reconcile", *arguments).exit_code == 2


def test_reconcile_shows_the_path_and_both_values_of_what_differs(run: Run, batches: BatchClient) -> None:
    account, other = batches.supplier.accounts(2)
    account["statements"][0]["gross_amount"] = 4928
    number, supplier = account["external_account_number"], batches.supplier.code
    _start(run, batches, [account, other])
    batches.work()
    shown = run("reconcile", supplier).stdout
    assert "The created accounts are clean: every value of 2 accounts is as it was staged." in shown
    assert all(it in shown for it in NOT_COMPARED)
    assert _audit(run, "account.read", supplier) == []

    with batches.supplier.Session.begin() as session:
        owned = select(Account.id).where(Account.external_account_number == number)
        where = Statement.account_pk.in_(owned), Statement.position == 0
        changed = {"gross_amount": 5928, "number": "2026-1", "statement_id": "S", "statement_path": None}
        session.execute(update(Statement).where(*where).values(**changed, issued_date=date(2026, 1, 1)))
    result = run("reconcile", supplier)
    assert "Clean" not in result.stdout
    assert result.exit_code == 1
    rows = [line.split("\t")[2:] for line in result.stdout.splitlines() if line.startswith(f"{number}\t")]
    assert ["statements.0.gross_amount", "4928", "5928"] in rows
    assert len(rows) == 6
    assert rows[-1][0] == "and 1 more value (all with --json)"
    found = json.loads(run("reconcile", supplier, "--json").stdout.splitlines()[1])
    assert {"path": "statements.0.gross_amount", "staged": 4928, "created": 5928} in found["values"]
    assert len(found["values"]) == 6
    assert len(_audit(run, "account.read", supplier)) == 2


def test_refused_accounts_are_acknowledged_with_the_operator_and_a_reason(
    run: Run, batches: BatchClient
) -> None:
    (broken,) = batches.supplier.accounts(1)
    number = broken["external_account_number"]
    batch_id = _start(run, batches, [broken | {"customers": "nobody"}, b"{"])
    batches.work()
    supplier = batches.supplier.code
    assert "invalid" not in run("reconcile", supplier, "--batch", batch_id).stderr
    why = ("--reason", "Closed", "--by", "Ada")
    done = run("acknowledgements", "add", supplier, number, *why)
    assert (done.exit_code, done.stdout) == (0, "1 account acknowledged.\n")
    assert run("acknowledgements", "add", supplier, "--batch", batch_id, "--line", "2", *why).exit_code == 0
    assert run("reconcile", supplier).exit_code == 0
    listed = run("acknowledgements", "list", supplier, "--json").stdout.splitlines()
    assert [json.loads(line)["acknowledged_by"] for line in listed] == ["Ada", "Ada"]
    refused = run("acknowledgements", "add", supplier, "unknown", *why)
    assert "was not refused and is not waiting" in refused.stderr
    assert refused.exit_code == 1
    for arguments in ((), (number, "--batch", batch_id), (number, "--line", "1")):
        assert run("acknowledgements", "add", supplier, *arguments, *why).exit_code == 2
