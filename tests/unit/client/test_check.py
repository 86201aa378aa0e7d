"""`migration-client check` validates a file by the rules of the service."""

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result

from migration_service_client.command import main
from migration_service_local.samples import generate_accounts
from support.batch_client import ndjson


def _check(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", str(file), *arguments])


def _write(folder: Path, accounts: Any, *, compress: bool = False) -> Path:
    file = folder / "book.ndjson"
    file.write_bytes(ndjson(accounts, compress=compress))
    return file


@pytest.mark.parametrize("compress", [False, True])
def test_a_valid_file_exits_with_0_under_the_strict_profile(tmp_path: Path, compress: bool) -> None:
    file = _write(tmp_path, generate_accounts(20, supplier="S"), compress=compress)
    result = _check(file, "--profile", "strict", "--processes", "1")
    assert (result.exit_code, result.stdout) == (0, "20 lines: 20 without errors, 0 with errors.\n")


@pytest.mark.parametrize(("time_zone", "found"), [("Pacific/Kiritimati", 0), ("Etc/GMT+12", 1)])
def test_today_is_today_in_the_time_zone_that_is_given(tmp_path: Path, time_zone: str, found: int) -> None:
    (account,) = generate_accounts(1, supplier="S")
    today = str(datetime.now(ZoneInfo("Pacific/Kiritimati")).date())
    account["supply_addresses"][0]["meter_points"][0]["last_billed_to_date"] = today
    result = _check(_write(tmp_path, [account]), "--json", "--time-zone", time_zone, "--processes", "1")
    assert json.loads(result.stdout)["warnings"].get("last_billed_to_date_in_future", 0) == found
    assert _check(tmp_path / "book.ndjson", "--time-zone", "Nowhere").exit_code == 2


def test_lines_of_another_supplier_are_found_if_one_is_named(tmp_path: Path) -> None:
    file = _write(tmp_path, generate_accounts(1, supplier="T"))
    result = _check(file, "--json", "--supplier", "S", "--processes", "1")
    assert json.loads(result.stdout)["errors"] == {"import_supplier_mismatch": 1}


def test_the_output_for_people_shows_each_fault_and_its_first_line(tmp_path: Path) -> None:
    (account,) = generate_accounts(1, supplier="S")
    del account["ledgers"][0]["ledger_code"]
    result = _check(_write(tmp_path, [b"", account]), "--processes", "1")
    assert result.exit_code == 1
    (row,) = [line for line in result.stdout.splitlines() if "required" in line]
    assert row.split()[:3] == ["required", "1", "2"]
    assert "ledgers.0.ledger_code" in row


def test_a_pipe_is_checked_as_a_file_is(tmp_path: Path) -> None:
    accounts = list(generate_accounts(3, supplier="S"))
    sound = CliRunner().invoke(main, ["check", "-", "--processes", "1"], input=ndjson(accounts))
    assert (sound.exit_code, sound.output) == (0, "3 lines: 3 without errors, 0 with errors.\n")
    again = [dict(reversed(accounts[0].items())), accounts[1] | {"billing_address1": "A"}]
    file = _write(tmp_path, accounts + again)
    for book in (file.read_bytes(), gzip.compress(file.read_bytes())):
        piped = CliRunner().invoke(main, ["check", "-", "--json", "--processes", "1"], input=book)
        assert json.loads(piped.stdout) == json.loads(_check(file, "--json", "--processes", "1").stdout)
        assert json.loads(piped.stdout)["errors"] == {
            "duplicate_line_in_batch": 2,
            "conflicting_lines_in_batch": 1,
        }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory."),
        (b"", "The file has no lines."),
        (b"\x1f\x8bnothing", "The gzip data is corrupt"),
        (b"[1]", "This looks like a JSON array. Send one JSON object on each line (NDJSON)."),
    ],
)
def test_a_file_that_cannot_be_read_exits_with_2(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "book"
    if content is not None:
        file.write_bytes(content)
    result = CliRunner().invoke(main, ["check", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {file} cannot be read: {says}")


@pytest.mark.parametrize("kind", ["notes", "transactions", "statements"])
def test_data_to_add_is_not_checked_as_accounts(kind: str) -> None:
    line = {"import_supplier": "S", "external_account_number": "1", kind: [{}]}
    result = CliRunner().invoke(main, ["check", "-"], input=ndjson([line]))
    assert (result.exit_code, f"--kind {kind} --mode validate" in result.stderr) == (2, True)
