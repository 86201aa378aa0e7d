"""`migration-client` and the running service."""

import json
from pathlib import Path

from drill.scene import SUPPLIER, TEAM, Scene
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
    arguments = ("send", "book.ndjson", "--mode", "import", "--again", "--team")
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
