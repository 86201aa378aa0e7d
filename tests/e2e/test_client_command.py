"""`migration-client` and the running service."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from drill.scene import SUPPLIER, TEAM, Scene
from migration_service_local.samples import generate_accounts
from support.client_command import run_command


def test_what_came_of_a_file_is_found_by_its_name(scene: Scene, tmp_path: Path) -> None:
    sent = b'{"external_account_number": "MCF-1",   "import_supplier": "DRILL"}'
    book = tmp_path / "book.ndjson"
    book.write_bytes(b"\n" + sent + b"\n")
    for way in ("single", "batch"):
        arguments = ("book.ndjson", "--as", way, "--mode", "stage", "--journal", f"{way}.journal", "--json")
        done = run_command(scene, tmp_path, "send", *arguments)
        told = json.loads(done.stdout)
        assert (done.returncode, told["counts"]["FAILED"], told["lines"]) == (1, 1, 1)
        [line] = map(
            json.loads, run_command(scene, tmp_path, "results", told["journal"], "--json").stdout.splitlines()
        )
        assert (line["line_number"], line["status"], line["external_account_number"]) == (
            2,
            "FAILED",
            "MCF-1",
        )
        assert line["errors"][0]["code"] == "customer_required"
        assert run_command(scene, tmp_path, "failed", told["journal"]).stdout.encode() == sent + b"\n"
        status = json.loads(run_command(scene, tmp_path, "status", told["journal"], "--json").stdout)
        assert (status["state"], status["counts"]["FAILED"]) == ("COMPLETED", 1)
    supplier = json.loads(run_command(scene, tmp_path, "status", SUPPLIER, "--json").stdout)
    assert (supplier["import_supplier"], supplier["status"]) == (SUPPLIER, "Ongoing")
    assert "nor a supplier." in run_command(scene, tmp_path, "status", "NOBODY").stderr
    # The batch is in the reconciliation; a single request that was refused is not.
    done = run_command(scene, tmp_path, "reconcile", "batch.journal")
    assert (done.returncode, "MCF-1\tREFUSED" in done.stdout) == (1, True)
    book.write_bytes(sent)
    done = run_command(scene, tmp_path, "failed", "single.journal")
    assert done.stderr.startswith("Error: book.ndjson is not the file that was sent on ")


def test_the_doctor_shows_what_the_key_may_do_and_what_is_wrong_with_it(scene: Scene, tmp_path: Path) -> None:
    done = run_command(scene, tmp_path, "doctor", "--json")
    found = {it["part"]: it for it in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0
    assert {it["verdict"] for it in found.values()} == {"ok"}
    assert found["key"]["seen"].startswith(scene.address.api_key[:14])
    assert (found["scopes"]["seen"], found["networks"]["seen"]) == ("all", "any; this machine is 127.0.0.1")
    (tmp_path / "key").write_text("ami_0123456789_wrong")
    done = run_command(scene, tmp_path, "doctor", "--key-file", "key")
    assert done.returncode == 1
    assert "-> Run: chmod 600 key\nwrong    key " in done.stdout


def test_what_stops_a_sending_leaves_its_lines_for_the_next_time(scene: Scene, tmp_path: Path) -> None:
    [number] = scene.stage(1, "MCT-")
    account = scene.send("GET", f"accounts/{SUPPLIER}/{number}/").json()["staged"]["payload"]
    (tmp_path / "book.ndjson").write_text(json.dumps(account))
    arguments = ("send", "book.ndjson", "--mode", "import", "--team")
    done = run_command(scene, tmp_path, *arguments, "No such team")
    assert (done.returncode, "(operations_team_not_found)" in done.stderr) == (2, True)
    assert "line_number" not in (tmp_path / "book.ndjson.journal").read_text()
    done = run_command(scene, tmp_path, *arguments, TEAM)
    assert (done.returncode, done.stdout) == (0, "1 line: 1 IMPORTED.\n")


def test_a_line_of_another_supplier_is_not_sent(scene: Scene, tmp_path: Path) -> None:
    lines = [
        {"external_account_number": f"MCO-{code}", "import_supplier": code} for code in (SUPPLIER, "OTHER")
    ]
    (tmp_path / "book.ndjson").write_text("".join(json.dumps(it) + "\n" for it in lines))
    assert run_command(scene, tmp_path, "send", "book.ndjson", "--mode", "stage").returncode == 1
    found = run_command(
        scene, tmp_path, "results", "book.ndjson", "--code", "import_supplier_mismatch"
    ).stdout
    assert "2\tMCO-OTHER\tFAILED\t-\timport_supplier_mismatch at import_supplier\n" in found


@pytest.mark.parametrize("way", ["single", "batch"])
def test_a_file_means_the_same_in_single_requests_and_as_a_batch(
    way: str, scene: Scene, tmp_path: Path
) -> None:
    def send(file: str, *arguments: str) -> tuple[int, str, dict[int, tuple[str, set[str]]]]:
        done = run_command(
            scene, tmp_path, "send", file, "--mode", "import", "--team", TEAM, "--as", way, *arguments
        )
        lines = run_command(scene, tmp_path, "results", file, "--json").stdout.splitlines()
        found = {
            it["line_number"]: (
                it["status"],
                {one["code"] for one in [*it.get("errors", ()), *it.get("warnings", ())]},
            )
            for it in map(json.loads, lines)
        }
        return done.returncode, done.stdout + done.stderr, found

    first, second, third, fourth = (
        account | {"external_account_number": f"MCW-{way}-{number}"}
        for number, account in enumerate(generate_accounts(4, supplier=SUPPLIER, seed=11))
    )
    _write(tmp_path / "first.ndjson", first | {"biling_address2": "12 bis"}, second, third, third, fourth)
    changed = fourth | {"billing_address1": "Elsewhere 1"}
    with (tmp_path / "first.ndjson").open("a") as file:
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
    _write(tmp_path / "second.ndjson", second | {"billing_address1": "Elsewhere 2"}, third)
    status, said, found = send("second.ndjson")
    assert (status, "1 exists and differs: nothing was changed." in said) == (1, True)
    exists = "account_already_imported"
    assert found == {1: ("ALREADY_IMPORTED", {exists, "payload_differs"}), 2: ("ALREADY_IMPORTED", {exists})}
    # The same content under another name: nothing is sent again unless that is asked for.
    (tmp_path / "again.ndjson").write_bytes((tmp_path / "second.ndjson").read_bytes())
    time.sleep(3)  # the service's clock is known to a second
    status, said, _ = send("again.ndjson")
    assert (status, "The same content was sent on " in said) == (1, way == "batch")
    before = scene.query("SELECT count(*) FROM batch")
    (tmp_path / "again.ndjson.journal").unlink()
    assert "The same content" not in send("again.ndjson", "--again")[1]
    assert scene.query("SELECT count(*) FROM batch")[0][0] == before[0][0] + (way == "batch")


def test_a_second_delivery_replaces_what_changed_after_a_preview(scene: Scene, tmp_path: Path) -> None:
    accounts = [
        account | {"external_account_number": f"MCR-{number}"}
        for number, account in enumerate(generate_accounts(3, supplier=SUPPLIER, seed=12))
    ]
    sending = ("--mode", "import", "--team", TEAM, "--as", "batch")
    _write(tmp_path / "first.ndjson", *accounts[:2])
    assert run_command(scene, tmp_path, "send", "first.ndjson", *sending).returncode == 0
    _write(tmp_path / "second.ndjson", accounts[0] | {"billing_address1": "Elsewhere 1"}, *accounts[1:])
    asked = run_command(scene, tmp_path, "send", "second.ndjson", *sending, "--replace-changed")
    assert asked.returncode == 1
    assert "1 WOULD_IMPORT, 1 WOULD_REPLACE, 1 ALREADY_IMPORTED" in asked.stderr
    assert "Replace 1 account, and send the file?" in asked.stderr
    sure = run_command(scene, tmp_path, "send", "second.ndjson", *sending, "--replace-changed", "--yes")
    assert (sure.returncode, "1 IMPORTED, 1 REPLACED, 1 ALREADY_IMPORTED" in sure.stdout) == (0, True), sure
    for refused in (
        ("--mode", "stage"),
        ("--mode", "import", "--kind", "notes"),
        (*sending, "--as", "single"),
    ):
        wrong = run_command(scene, tmp_path, "send", "second.ndjson", *refused, "--replace-changed")
        assert wrong.returncode == 2


def test_a_batch_is_sent_with_the_totals_of_its_file(scene: Scene, tmp_path: Path) -> None:
    _write(tmp_path / "book.ndjson", *generate_accounts(3, supplier=SUPPLIER, seed=12))
    run_command(scene, tmp_path, "check", "book.ndjson", "--totals", "totals.json")
    arguments = ("send", "book.ndjson", "--mode", "validate", "--totals", "totals.json")
    done = run_command(scene, tmp_path, *arguments)
    assert (done.returncode, "control total" in done.stdout) == (0, False)
    totals = json.loads((tmp_path / "totals.json").read_text())
    (tmp_path / "totals.json").write_text(json.dumps(totals | {"accounts": 4}))
    done = run_command(scene, tmp_path, *arguments)
    assert (done.returncode, "1 control total differs: " in done.stdout) == (1, True)


def _write(path: Path, *accounts: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(it, default=str) + "\n" for it in accounts))
