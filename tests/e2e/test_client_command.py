"""`migration-client` and the running service: what it does with files, and each operation."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from drill.scene import SUPPLIER, TEAM, Scene
from migration_service_client.command import main
from migration_service_local.samples import generate_accounts
from support.batch_client import ndjson
from support.receivers import receiving
from support.servers import wait_until

#: Runs the command. Its arguments may not be texts.
Run = Callable[..., Result]


@pytest.fixture
def run(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `migration-client` in an empty folder, with an input. It may fail, but not crash.

    It is to end with the status `expect`, or with any if that is None.
    """
    monkeypatch.chdir(tmp_path)
    environment = {
        "XDG_CONFIG_HOME": str(tmp_path),
        "MIGRATION_CLIENT_URL": scene.address.url,
        "MIGRATION_CLIENT_KEY": scene.address.api_key,
    }

    def run(*arguments: object, given: bytes | str | None = None, expect: int | None = 0) -> Result:
        result = CliRunner().invoke(main, [str(it) for it in arguments], env=environment, input=given)
        assert result.exit_code in (0, 1, 2) if expect is None else result.exit_code == expect, result.output
        return result

    return run


def _json(result: Result) -> Any:
    return json.loads(result.stdout.splitlines()[0])


def _book(numbers: str, count: int, *more: bytes) -> bytes:
    accounts = list(generate_accounts(count, supplier=SUPPLIER, seed=len(numbers)))
    for index, it in enumerate(accounts):
        it["external_account_number"] = f"{numbers}{index}"
    return ndjson([*accounts, *more])


def test_what_came_of_a_file_is_found_by_its_name(run: Run) -> None:
    sent = b'{"external_account_number": "MCF-1",   "import_supplier": "DRILL"}'
    book = Path("book.ndjson")
    book.write_bytes(b"\n" + sent + b"\n")
    for way in ("single", "batch"):
        arguments = ("book.ndjson", "--as", way, "--mode", "stage", "--journal", f"{way}.journal", "--json")
        told = json.loads(run("send", *arguments, expect=1).stdout)
        assert (told["counts"]["FAILED"], told["lines"]) == (1, 1)
        [line] = map(json.loads, run("results", told["journal"], "--json", expect=None).stdout.splitlines())
        assert (line["line_number"], line["status"], line["external_account_number"]) == (
            2,
            "FAILED",
            "MCF-1",
        )
        assert line["errors"][0]["code"] == "customer_required"
        assert run("failed", told["journal"], expect=None).stdout.encode() == sent + b"\n"
        status = json.loads(run("status", told["journal"], "--json", expect=None).stdout)
        assert (status["state"], status["counts"]["FAILED"]) == ("COMPLETED", 1)
    supplier = json.loads(run("status", SUPPLIER, "--json").stdout)
    assert (supplier["import_supplier"], supplier["status"]) == (SUPPLIER, "Ongoing")
    assert "nor a supplier." in run("status", "NOBODY", expect=2).stderr
    # The batch is in the reconciliation; a single request that was refused is not.
    assert "MCF-1\tREFUSED" in run("reconcile", "batch.journal", expect=1).stdout
    book.write_bytes(sent)
    said = run("failed", "single.journal", expect=2).stderr
    assert said.startswith("Error: book.ndjson is not the file that was sent on ")


def test_the_doctor_shows_what_the_key_may_do_and_what_is_wrong_with_it(run: Run, scene: Scene) -> None:
    done = run("doctor", "--json")
    found = {it["part"]: it for it in map(json.loads, done.stdout.splitlines())}
    assert {it["verdict"] for it in found.values()} == {"ok"}
    assert found["key"]["seen"].startswith(scene.address.api_key[:14])
    assert (found["scopes"]["seen"], found["networks"]["seen"]) == ("all", "any; this machine is 127.0.0.1")
    Path("key").write_text("ami_0123456789_wrong")
    assert "-> Run: chmod 600 key\nwrong    key " in run("doctor", "--key-file", "key", expect=1).stdout


def test_what_stops_a_sending_leaves_its_lines_for_the_next_time(run: Run, scene: Scene) -> None:
    numbers = scene.stage(2, "MCT-")
    one, other = (
        scene.send("GET", f"accounts/{SUPPLIER}/{it}/").json()["staged"]["payload"] for it in numbers
    )
    _write("book.ndjson", one, other | {"billing_address1": "Elsewhere"})
    arguments = ("send", "book.ndjson", "--mode", "import", "--team")
    assert "(operations_team_not_found)" in run(*arguments, "No such team", expect=2).stderr
    journal = Path("book.ndjson.journal")
    assert "line_number" not in journal.read_text()
    # In the meantime somebody else imports what one of them was before.
    scene.stage(2, "MCT-")
    assert scene.process(numbers[1], wait=True).status_code == 201
    for _ in range(2):
        run(*arguments, TEAM, expect=1)
        found = map(json.loads, run("results", "book.ndjson", "--json", expect=None).stdout.splitlines())
        assert [(it["status"], [one["code"] for one in it["warnings"]]) for it in found] == [
            ("IMPORTED", []),
            ("ALREADY_IMPORTED", ["payload_differs"]),
        ]
        # If its end is lost, the same run goes on, and says the same.
        head, *told = journal.read_text().splitlines()
        journal.write_text("".join(f"{it}\n" for it in (head, *told) if it is head or f'"{TEAM}"' in it))


def test_a_line_of_another_supplier_is_not_sent(run: Run) -> None:
    lines = [
        {"external_account_number": f"MCO-{code}", "import_supplier": code} for code in (SUPPLIER, "OTHER")
    ]
    Path("book.ndjson").write_text("".join(json.dumps(it) + "\n" for it in lines))
    run("send", "book.ndjson", "--mode", "stage", expect=1)
    found = run("results", "book.ndjson", "--code", "import_supplier_mismatch", expect=None).stdout
    assert "2\tMCO-OTHER\tFAILED\t-\timport_supplier_mismatch at import_supplier\n" in found


@pytest.mark.parametrize("way", ["single", "batch"])
def test_a_file_means_the_same_in_single_requests_and_as_a_batch(way: str, run: Run, scene: Scene) -> None:
    def send(file: str, *arguments: str) -> tuple[int, str, dict[int, tuple[str, set[str]]]]:
        sending = ("send", file, "--mode", "import", "--team", TEAM, "--as", way, *arguments)
        done = run(*sending, expect=None)
        lines = run("results", file, "--json", expect=None).stdout.splitlines()
        found = {
            it["line_number"]: (
                it["status"],
                {one["code"] for one in [*it.get("errors", ()), *it.get("warnings", ())]},
            )
            for it in map(json.loads, lines)
        }
        return done.exit_code, done.stdout + done.stderr, found

    first, second, third, fourth = (
        account | {"external_account_number": f"MCW-{way}-{number}"}
        for number, account in enumerate(generate_accounts(4, supplier=SUPPLIER, seed=11))
    )
    _write("first.ndjson", first | {"biling_address2": "12 bis"}, second, third, third, fourth)
    changed = fourth | {"billing_address1": "Elsewhere 1"}
    with Path("first.ndjson").open("a") as file:
        file.write(json.dumps(changed, default=str) + "\n")
    status, said, found = send("first.ndjson")
    assert (status, "Lines with warnings: 1 unknown_field." in said) == (1, True)
    assert found == {
        1: ("IMPORTED", {"unknown_field"}),
        2: ("IMPORTED", set()),
        3: ("IMPORTED", set()),
        4: ("FAILED", {"duplicate_line_in_batch"}),
        5: ("FAILED", {"conflicting_lines_in_batch"}),
        6: ("FAILED", {"conflicting_lines_in_batch", "duplicate_line_in_batch"}),
    }
    # Another file has results of its own.
    _write("second.ndjson", second | {"billing_address1": "Elsewhere 2"}, third)
    status, said, found = send("second.ndjson")
    assert (status, "1 exists and differs: nothing was changed." in said) == (1, True)
    exists = "account_already_imported"
    assert found == {1: ("ALREADY_IMPORTED", {exists, "payload_differs"}), 2: ("ALREADY_IMPORTED", {exists})}
    # The same content under another name: nothing is sent again unless that is asked for.
    Path("again.ndjson").write_bytes(Path("second.ndjson").read_bytes())
    time.sleep(3)  # the service's clock is known to a second
    status, said, _ = send("again.ndjson")
    assert (status, "The same content was sent on " in said) == (1, way == "batch")
    before = scene.query("SELECT count(*) FROM batch")
    Path("again.ndjson.journal").unlink()
    assert "The same content" not in send("again.ndjson", "--again")[1]
    assert scene.query("SELECT count(*) FROM batch")[0][0] == before[0][0] + (way == "batch")


def test_a_second_delivery_replaces_what_changed_after_a_preview(run: Run) -> None:
    accounts = [
        account | {"external_account_number": f"MCR-{number}"}
        for number, account in enumerate(generate_accounts(3, supplier=SUPPLIER, seed=12))
    ]
    sending = ("--mode", "import", "--team", TEAM, "--as", "batch")
    _write("first.ndjson", *accounts[:2])
    run("send", "first.ndjson", *sending)
    _write("second.ndjson", accounts[0] | {"billing_address1": "Elsewhere 1"}, *accounts[1:])
    asked = run("send", "second.ndjson", *sending, "--replace-changed", expect=1)
    assert "1 WOULD_IMPORT, 1 WOULD_REPLACE, 1 ALREADY_IMPORTED" in asked.stderr
    assert "Replace 1 account, and send the file?" in asked.stderr
    sure = run("send", "second.ndjson", *sending, "--replace-changed", "--yes")
    assert "1 IMPORTED, 1 REPLACED, 1 ALREADY_IMPORTED" in sure.stdout
    for refused in (
        ("--mode", "stage"),
        ("--mode", "import", "--kind", "notes"),
        (*sending, "--as", "single"),
    ):
        run("send", "second.ndjson", *refused, "--replace-changed", expect=2)


def test_a_batch_is_sent_with_the_totals_of_its_file(run: Run) -> None:
    _write("book.ndjson", *generate_accounts(3, supplier=SUPPLIER, seed=12))
    run("check", "book.ndjson", "--totals", "totals.json")
    arguments = ("send", "book.ndjson", "--mode", "validate", "--totals", "totals.json")
    assert "control total" not in run(*arguments).stdout
    totals = json.loads(Path("totals.json").read_text())
    Path("totals.json").write_text(json.dumps(totals | {"accounts": 4}))
    assert "1 control total differs: " in run(*arguments, expect=1).stdout


def _write(path: str, *accounts: dict[str, Any]) -> None:
    Path(path).write_text("".join(json.dumps(it, default=str) + "\n" for it in accounts))


def test_batches_and_what_follows_them(run: Run, tmp_path: Path) -> None:
    start = ("batches", "start", "-", "--supplier", SUPPLIER, "--team", TEAM)
    Path("totals.json").write_text('{"accounts": 5}')
    given = _book("MCB-", 3, b'{"x": 1}')
    watched = run(*start, "--mode", "dry-run", "--watch", given=given, expect=1)
    assert "WOULD_IMPORT 3, FAILED 1" in watched.stdout
    more = ("--mode", "import", "--control-totals", "totals.json", "--json", "--watch")
    imported = run(*start, *more, given=given, expect=1)
    batch = json.loads(imported.stdout)
    assert (batch["state"], batch["counts"]["IMPORTED"], batch["counts"]["FAILED"]) == ("COMPLETED", 3, 1)
    id_ = batch["batch_id"]
    compared = run("batches", "control-totals", id_, expect=1)
    assert "accounts\t5\t4\t-1" in compared.stdout
    corrected = run("batches", "control-totals", id_, "-", given='{"accounts": 4}')
    assert "as given\tTrue" in corrected.stdout
    wrong = run("batches", "control-totals", id_, "-", given='{"accounts": "x", "y": 2}', expect=2)
    assert "(invalid at accounts)" in wrong.stderr
    assert "(unknown_field at y)" in wrong.stderr
    assert run("batches", "failed-lines", id_).stdout == '{"x": 1}\n'
    assert _json(run("batches", "results", id_, "--status", "failed"))["line_number"] == 4
    first, *rows = run("batches", "results", id_, "--format", "csv", "--code", "required").stdout.splitlines()
    assert (first.startswith('"line_number"'), len(rows)) == (True, 2)
    retried = run("batches", "retry-failed", id_, "--json")
    assert (_json(retried)["retried"], _json(retried)["left"]) == (0, 1)
    assert (
        "stop_after_errors 2%"
        in run("batches", "error-threshold", id_, "2%", "--stop-ignore", "required").stdout
    )
    listed = run("batches", "list", "--supplier", SUPPLIER, "--limit", 1)
    assert id_ in listed.stdout
    assert listed.stderr == ""
    run("batches", "watch", id_, expect=1)
    assert f"Cancel a batch: {id_}?" in run("batches", "cancel", id_, given="n\n", expect=1).stderr
    assert "is COMPLETED" in run("batches", "cancel", id_, "--yes", expect=2).stderr
    newest, before = map(json.loads, run("batches", "list", "--limit", 2, "--json").stdout.splitlines())
    assert newest["batch_id"] == id_
    before = before["batch_id"]
    assert "required" in run("batches", "compare", before, id_).stdout
    assert run("batches", "compare", before, id_, "--accounts", "--change", "newly_broken").stdout == ""
    needs = run("batches", "compare", before, id_, "--change", "newly_broken", expect=2).stderr
    assert "--change needs --accounts." in needs
    shown = run("reconcile", SUPPLIER, "--batch", id_, "--id-map", "map.csv", expect=1).stdout
    assert "Control totals: as in the file." in shown
    assert "Not clean: OPEN 1" in shown
    assert "MCB-0" in Path("map.csv").read_text()
    run("reconcile", SUPPLIER, "--batch", id_, "--created-only")
    order = ("--batch", id_, "--line", 4, "--reason", "Empty", "--by", "Ada")
    assert "acknowledged\t1" in run("acknowledgements", "add", SUPPLIER, *order).stdout
    assert "Ada" in run("acknowledgements", "list", SUPPLIER).stdout
    run("report", id_, "--html", "report.html")
    assert id_ in Path("report.html").read_text()
    assert "(import_supplier_not_found)" in run("report", "NOBODY", "--html", "x", expect=2).stderr


def test_an_undo_is_previewed_confirmed_and_followed(run: Run) -> None:
    start = ("batches", "start", "-", "--supplier", SUPPLIER, "--team", TEAM, "--mode", "import", "--json")
    id_ = json.loads(run(*start, "--watch", given=_book("MCU-", 3)).stdout)["batch_id"]
    note = {"import_supplier": SUPPLIER, "external_account_number": "MCU-0", "notes": [{"body": "Later."}]}
    run("added-data", "notes", "-", given=json.dumps(note))
    order = ("undo", "start", SUPPLIER, "--batch", id_)
    assert "data_added_later" in run("undo", "preview", SUPPLIER, "--batch", id_).stdout
    assert json.loads(run(*order, "--preview", "--json").stdout)["revertible"] == 2
    reason = ("--reason", "Wrong tariffs", "--by", "Ada")
    declined = run(*order, *reason, given="n\n", expect=1)
    assert "revertible\t2" in declined.stdout
    assert f"Start an undo: {SUPPLIER}?" in declined.stderr
    assert "Missing option '--reason'" in run(*order, "--yes", expect=2).stderr
    refused = run(*order, *reason, "--yes", "--override", "data_added_later", expect=2)
    assert "(permission_denied)" in refused.stderr
    undone = json.loads(run(*order, *reason, "--yes", "--watch", "--json", expect=1).stdout)
    assert (undone["started_by"], undone["counts"]["REVERTED"], undone["counts"]["KEPT"]) == ("Ada", 2, 1)
    assert undone["undo_id"] in run("undo", "list", "--supplier", SUPPLIER).stdout
    kept = run("undo", "results", undone["undo_id"], "--outcome", "KEPT", "--format", "csv").stdout
    assert kept.splitlines()[1].startswith('"MCU-0"')
    assert "(undo_state" in run("undo", "cancel", undone["undo_id"], "--yes", expect=2).stderr


def test_a_go_live_is_previewed_confirmed_and_shown(run: Run) -> None:
    start = ("batches", "start", "-", "--supplier", SUPPLIER, "--team", TEAM, "--mode", "import", "--json")
    id_ = json.loads(run(*start, "--watch", given=_book("MCG-", 2)).stdout)["batch_id"]
    planned = ("go-live", "start", SUPPLIER, "--batch", id_, "--by", "Ada")
    sooner, later = (f"{datetime.now(UTC) + timedelta(days=it):%Y-%m-%dT%H:%M:%SZ}" for it in (9, 99))
    declined = run(*planned, "--at", sooner, given="n\n", expect=1)
    assert "accounts\t2" in declined.stdout
    assert "(go_live_not_ready)" in run(*planned, "--yes", expect=2).stderr
    run("reconcile", SUPPLIER, "--batch", id_)
    assert "clean\tTrue" in run("go-live", "receipt", SUPPLIER, "--batch", id_).stdout
    set_ = _json(run(*planned, "--at", later, "--yes", "--json"))
    assert (set_["state"], set_["decided_by"]) == ("PENDING", "Ada")
    assert "CANCELLED" in run("go-live", "cancel", set_["go_live_id"]).stdout
    started = _json(run(*planned, "--yes", "--json"))["go_live_id"]
    show = ("go-live", "show", started, "--json")
    wait_until(lambda: _json(run(*show))["state"] == "COMPLETED", "the go-live")
    assert run("accounts", "imported", SUPPLIER, "--owner", "new").stdout.count("MCG-") == 2
    assert started in run("go-live", "list", "--supplier", SUPPLIER).stdout


def test_waves_are_planned_and_decided(run: Run) -> None:
    start = ("batches", "start", "-", "--supplier", SUPPLIER, "--mode", "stage", "--watch")
    run(*start, given=_book("MCW-", 4))
    plan = {"import_supplier": SUPPLIER, "operations_team_name": TEAM, "waves": [{"size": 2}, {"rest": True}]}
    planned = _json(run("waves", "plan", "-", "--json", given=json.dumps(plan)))["plan_id"]
    assert planned in run("waves", "list", "--supplier", SUPPLIER).stdout
    assert "backup_recent" in run("ready", SUPPLIER, expect=1).stdout
    assert "--check" in run("ready", SUPPLIER, "--accept", "--reason", "r", expect=2).stderr
    change = ("waves", "change", planned, 2, "-", "--json")
    changed = _json(run(*change, given='{"lines_per_minute": 60}'))
    assert [wave["lines_per_minute"] for wave in changed["waves"]] == [None, 60]
    try:
        shown = run("waves", "start", planned, 1).stdout
        assert "waves:" in shown
        assert "(wave_state" in run("waves", "approve", planned, 2, "--reason", "r", expect=2).stderr
    finally:
        stopped = run("waves", "stop", planned, 1, "--reason", "The end", "--by", "Ada", "--yes").stdout
    assert "STOPPED" in stopped
    assert "Ada" in stopped


def test_single_accounts_and_lists(run: Run) -> None:
    book = _book("MCS-", 1)
    assert "valid\tTrue" in run("accounts", "validate", "-", given=book).stdout
    assert "(required at import_supplier)" in run("accounts", "validate", "-", given=b"{}", expect=2).stderr
    run("accounts", "stage", "-", given=book)
    processed = run("accounts", "process", SUPPLIER, "MCS-0", "--team", TEAM).stdout
    assert "service account number\tA-" in processed
    assert "COMPLETED" in run("accounts", "status", SUPPLIER, "MCS-0").stdout
    assert "MCS-0" in run("accounts", "show", SUPPLIER, "MCS-0").stdout
    assert "SUCCEEDED" in run("accounts", "attempts", SUPPLIER, "MCS-0").stdout
    assert "MCS-0" in run("accounts", "imported", SUPPLIER, "--limit", 100_000).stdout
    assert "MCS-0" in run("accounts", "id-map", SUPPLIER).stdout
    asked = run("accounts", "erase", SUPPLIER, "MCS-0", "--reason", "Request 1", given="y\n")
    assert f"Erase the personal data of an account permanently: {SUPPLIER} MCS-0?" in asked.stderr
    assert SUPPLIER in run("suppliers", "list").stdout
    assert "account.created" in run("events", "list", "--type", "account.created").stdout
    for lists in (("events", "consumers"), ("sessions", "list"), ("api-keys", "show")):
        run(*lists)


def test_webhooks(run: Run) -> None:
    created = _json(run("webhooks", "create", "https://hooks.example/x", "--type", "batch.ended", "--json"))
    id_ = created["webhook_id"]
    assert created["secret"].startswith("whsec_")
    assert "enabled\tFalse" in run("webhooks", "change", id_, "--off", "--description", "Ours").stdout
    assert "Ours" in run("webhooks", "list").stdout
    assert "whsec_" in run("webhooks", "rotate-secret", id_, "--overlap-hours", 0).stdout
    number = _json(run("webhooks", "test", id_, "--json"))["delivery_number"]
    assert "webhook.test" in run("webhooks", "deliveries", id_).stdout
    assert (
        _json(run("webhooks", "deliveries", id_, "--delivery", number, "--json"))["delivery_number"] == number
    )
    again = run("webhooks", "redeliver", id_, "--since", "2026-01-01T00:00:00Z", "--only-failed")
    assert "events\t0" in again.stdout
    run("webhooks", "remove", id_, "--yes")
    assert "(webhook_not_found)" in run("webhooks", "show", id_, expect=2).stderr


def test_an_example_of_an_event_and_an_event_once_more(run: Run) -> None:
    Path("secret").write_text(secret := "whsec_" + "c2VjcmV0" * 4)
    with receiving() as receiver:
        to = ("trigger", "account.created", "--forward-to", receiver.url, "--secret-file", "secret")
        told = run(*to).stdout
        assert receiver.ids() == [told.split()[-1].rstrip(".")]
        [event] = receiver.verified(secret)
        assert event["data"]["service_account_number"].startswith("A-")
        receiver.answer(500)
        said = run(*to, expect=2).stderr
        assert said.endswith("did not receive account.created: it answered 500.\n")
    said = run("resend", "1", expect=2).stderr
    assert said == "Error: You have 0 webhooks. Name one with --webhook: -.\n"
