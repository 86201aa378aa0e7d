"""`migration-service batches compare`, for people, as JSON and as CSV."""

import csv
import io
import json
from functools import partial

import pytest

from support.batch_client import BatchClient
from support.commands import Run


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "batches", "compare")


@pytest.fixture
def pair(batches: BatchClient) -> tuple[str, str]:
    """Two batches of one account, which is mended in the second one."""
    (account,) = batches.supplier.accounts()
    broken = account | {"billing_postcode": 7}
    first, second = (batches.run([line], "validate")["batch_id"] for line in (broken, account))
    return first, second


def test_people_see_what_changed(run: Run, pair: tuple[str, str]) -> None:
    result = run(*pair)
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert ["error", "invalid", "1", "0", "WENT"] in rows
    assert ["mended", "1"] in rows
    assert "Every code is as it was." in run(pair[0], pair[0]).stdout


def test_programs_read_json_and_csv(run: Run, pair: tuple[str, str]) -> None:
    shown = json.loads(run(*pair, "--json").stdout)
    assert (shown["before"], shown["after"], shown["accounts"]["mended"]) == (*pair, 1)
    (code,) = [
        row for row in csv.DictReader(io.StringIO(run(*pair, "--csv").stdout)) if row["code"] == "invalid"
    ]
    assert (code["severity"], code["before"], code["after"], code["change"]) == ("error", "1", "0", "WENT")


def test_accounts_are_written_one_per_line(run: Run, pair: tuple[str, str]) -> None:
    (line,) = run(*pair, "--accounts").stdout.splitlines()
    account = json.loads(line)
    assert (account["change"], account["before_codes"], account["after_codes"]) == (
        "MENDED",
        ["invalid"],
        [],
    )
    assert run(*pair, "--accounts", "--change", "newly_broken").stdout == ""
    (row,) = csv.DictReader(io.StringIO(run(*pair, "--accounts", "--csv").stdout))
    assert (row["change"], row["before_codes"]) == ("MENDED", "invalid")


def test_options_that_contradict_each_other_are_refused(run: Run, pair: tuple[str, str]) -> None:
    assert run(*pair, "--csv", "--json").exit_code == 2
    assert run(*pair, "--change", "mended").exit_code == 2
    unknown = run(pair[0], "not an id")
    assert "does not exist" in unknown.output
    assert unknown.exit_code == 1
