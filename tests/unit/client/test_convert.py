"""`migration-client convert`: tables become accounts by SQL; each row is in the book, left out, or named."""

import csv
import json
import re
import sys
from collections import defaultdict
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from documentation.pages import ROOT
from migration_payloads.profile import Profile
from migration_payloads.validation import validate_text
from migration_service_client.command import main
from support.legacy_export import CHECKED, NAMED, READ, SKIPPED, make_export

_SQL = """-- source c: c.csv delimiter=; key=number
select number as external_account_number, 'CODE' as import_supplier,
a as billing_address1, b as billing_address2, _row
from c order by _row"""
_HEADER = b"number;a;b\n"


def convert(folder: Path, sql: str, *options: str, **files: str | bytes) -> Result:
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name.replace("_", ".")).write_bytes(data)
    (folder / "book.sql").write_text(sql)
    places = ["-o", str(folder / "book.ndjson"), "--errors", str(folder / "errors.csv")]
    return CliRunner().invoke(main, ["convert", str(folder / "book.sql"), *places, *options])


def book(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "book.ndjson").read_text().splitlines()
    return [json.loads(line, parse_float=Decimal) for line in lines]


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


_MACROS = (resources.files("migration_service_client.command") / "macros.sql").read_text()


@pytest.mark.parametrize(("call", "value"), re.findall(r"^-- (\w+\(.+\)) => (.+)$", _MACROS, re.MULTILINE))
def test_each_example_of_a_function_is_true(call: str, value: str) -> None:
    # Within a lambda, whose name must not mean something else there, it is the same.
    of_item = re.sub(r"\(('(?:[^']|'')*'|NULL)", "(it.a", call, count=1)
    first = re.search(r"\(('(?:[^']|'')*'|NULL)", call)
    assert first
    inner = f"list_transform([{{'a': {first[1]}::varchar}}], lambda it: {of_item})[1]"
    with duckdb.connect() as connection:
        connection.execute(_MACROS)
        found, within, expected = connection.sql(f"values ({call}, {inner}, {value})").fetchall()[0]
    assert found == within == expected


@pytest.mark.parametrize("name", re.findall(r"^create macro ([a-z]\w+)", _MACROS, re.MULTILINE))
def test_each_function_has_examples_and_is_on_the_page(name: str) -> None:
    assert _MACROS.count(f"\n-- {name}(") >= 2
    assert f"`{name}(" in (ROOT / "docs" / "suppliers" / "from-csv.md").read_text()


def test_a_file_that_grows_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from migration_service_client.command import sources  # noqa: PLC0415

    monkeypatch.setattr(
        sources,
        "_split",
        growing := lambda stream, path: (path.write_bytes(_HEADER * 3), iter([_HEADER[:-1]]))[1],
    )
    result = convert(tmp_path, _SQL, c_csv=_HEADER)
    assert (result.exit_code, "was changed while it was read" in result.stderr, callable(growing)) == (
        2,
        True,
        True,
    )


def test_without_duckdb_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = convert(tmp_path, _SQL)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "pip install 'migration-service-client[convert]'" in result.stderr


def test_a_whole_export_is_in_the_book_left_out_or_named(tmp_path: Path) -> None:
    truth = make_export(tmp_path)
    sql = (ROOT / "tests" / "support" / "legacy_export.sql").read_text()
    assert len(sql.splitlines()) <= 200
    result = convert(tmp_path, sql)
    assert result.exit_code == 1, result.output
    accounts = {it["external_account_number"]: it for it in book(tmp_path)}
    named = {
        (it["file"], row)
        for it in read_csv(tmp_path / "errors.csv")
        for row in range(int(it["first_row"]), int(it["last_row"]) + 1)
    }
    held = {account for it in read_csv(tmp_path / "errors.csv") for account in it["accounts"].split(", ")}
    # The rows of each file add up to all that were written.
    sums = re.findall(r"^(\S+): (\d+) rows = (.+?)(?:\. \d+ rows in UTF-8)?$", result.stderr, re.MULTILINE)
    assert sum(int(read) for _, read, _ in sums) == truth.rows
    assert all(sum(map(int, re.findall(r"\d+(?= [a-z])", parts))) == int(read) for _, read, parts in sums)
    # Each piece of dirt came to what is said of its kind.
    kinds = {it.kind for it in truth.dirt}
    assert kinds == {*READ, *NAMED, *CHECKED, *SKIPPED}
    for dirt in truth.dirt:
        if dirt.kind in NAMED:
            assert (dirt.file, dirt.line) in named, dirt
            assert dirt.account not in accounts or dirt.kind in ("unknown_customer", "empty_key"), dirt
        elif dirt.account in accounts and dirt.kind in CHECKED:
            checked = validate_text(json.dumps(accounts[dirt.account]).encode(), Profile.STRICT)
            assert CHECKED[dirt.kind] in {it.code for it in checked.errors}, dirt
        else:
            assert (dirt.file, dirt.line) not in named, dirt
    # All others are in the book as they were, to the cent.
    lacking = {it.account for it in truth.dirt if it.kind in ("unknown_customer", "empty_key")}
    unread = {it.account for it in truth.dirt if it.kind in CHECKED}
    assert accounts.keys() == truth.accounts.keys() - truth.closed - held
    assert len(accounts) > 250
    for number in accounts.keys() - lacking - unread:
        assert sums_of(accounts[number]) == (truth.accounts[number], truth.balances[number]), number
        checked = validate_text(json.dumps(accounts[number]).encode(), Profile.STRICT)
        assert [(it.code, it.attr) for it in checked.errors] == [], number


def test_the_example_of_the_page_is_converted(tmp_path: Path) -> None:
    page, folder = ROOT / "docs" / "suppliers" / "from-csv.md", ROOT / "docs" / "suppliers" / "from-csv"
    files = {it.name: it.read_bytes() for it in folder.iterdir()}
    [sql] = re.findall(r"<<END\n(.+?)^END$", page.read_text(), re.MULTILINE | re.DOTALL)
    table = page.read_text().partition("Five faults")[2].partition("Correct the files")[0]
    assert convert(tmp_path, sql, **files).exit_code == 1
    named = {f"`{it['file']}` {it['first_row']} `{it['code']}`" for it in read_csv(tmp_path / "errors.csv")}
    said = {
        f"{file} {row} {code}"
        for file, rows, code in re.findall(r"^\| (\S+) ([\d, ]+) \| (\S+) \|", table, re.MULTILINE)
        for row in rows.split(", ")
    }
    assert said == named


def sums_of(account: dict[str, Any]) -> tuple[dict[tuple[str, str], tuple[int, Decimal]], dict[str, Decimal]]:
    sums: dict[tuple[str, str], tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    balances = {"ENERGY_LEDGER": Decimal(0), "SERVICE_LEDGER": Decimal(0)}
    for ledger in account["ledgers"]:
        balances[ledger["ledger_code"]] = Decimal(ledger["ledger_balance"])
        for name, period in (
            ("historical_statement_transactions", "settled"),
            ("transactions_in_open_settlement_period", "open"),
        ):
            for it in ledger.get(name, ()):
                times, total = sums[f"{ledger['ledger_code']}.{period}", it["type"]]
                sums[f"{ledger['ledger_code']}.{period}", it["type"]] = (
                    times + 1,
                    total + Decimal(it["amount"]),
                )
    return dict(sums), balances
