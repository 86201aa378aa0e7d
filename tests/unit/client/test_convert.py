"""`migration-client convert`: tables become accounts by SQL; each row is in the book, left out, or named."""

import csv
import gzip
import json
import os
import re
import sys
import zipfile
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
from migration_service_client.command.book import read_book
from migration_service_client.command.journal import Journal
from migration_service_client.command.runs import make_order
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


def numbers(folder: Path) -> str:
    return " ".join(it["external_account_number"] for it in book(folder))


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def problems(folder: Path) -> list[str]:
    """The first and the last row, and the code, of each problem."""
    return [f"{it['first_row']}-{it['last_row']} {it['code']}" for it in read_csv(folder / "errors.csv")]


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


#: Rows after the header, of which the first and the last are sound, with what is found.
_DIRT: dict[str, tuple[str | bytes, str, str, str]] = {
    # name: rows, options of the source, problems, accounts
    "nothing": ("1;x;y\n9;x;y\n", "", "", "1 9"),
    "a quote that is never closed": ('1;x;y\n2;"x;y\n9;x;y\n', "", "3-3 broken_quotes", "1 9"),
    "two quotes far apart": ('1;x;y\n2;x;"y\n3;x;y\n4;x;y"\n9;x;y\n', "", "3-5 swallowed_rows", "1 9"),
    "two quotes in two rows": ('1;x;y\n2;x;"y\n3;x;y"\n9;x;y\n', "", "3-4 swallowed_rows", "1 9"),
    "text behind a quote": ('1;x;y\n2;"x"z;y\n9;x;y\n', "", "3-3 broken_quotes", "1 9"),
    "a quote that the next one breaks": ('1;x;y\n2;"x;y\n3;"x";y\n9;x;y\n', "", "3-3 broken_quotes", "1 3 9"),
    "a break in quotes": ('1;x;y\n2;"a\nb";y\n9;x;y\n', "", "", "1 2 9"),
    "rows in quotes that are text": ('1;x;y\n2;x;"y\n3;x;y"\n9;x;y\n', "multiline=yes", "", "1 2 9"),
    "too many cells": ("1;x;y\n2;x;y;z\n9;x;y\n", "", "3-3 wrong_number_of_cells", "1 9"),
    "an empty cell too many": ("1;x;y\n2;x;y;\n9;x;y\n", "", "3-3 wrong_number_of_cells", "1 9"),
    "too few cells": ("1;x;y\n2;x\n9;x;y\n", "", "3-3 wrong_number_of_cells", "9"),
    "a break without quotes": ("1;x;y\n2;a\nb;y\n9;x;y\n", "", "3-4 wrong_number_of_cells", "9"),
    "a break in the last cell": ("1;x;y\n2;x;a\nb\n9;x;y\n", "", "4-4 wrong_number_of_cells", "1 9"),
    "a second header": ("1;x;y\nnumber;a;b\n9;x;y\n", "", "3-3 second_header", "1 9"),
    "a second header that is known": ("1;x;y\nnumber;a;b\n9;x;y\n", "ignore=second_header", "", "1 9"),
    "a row of blanks": ("1;x;y\n; ;\n9;x;y\n", "", "3-3 blank_row", "1 9"),
    "an empty line": ("1;x;y\n\n9;x;y\n\n\n", "", "3-3 blank_row", "1 9"),
    "blanks that are known": ("1;x;y\n;;\n9;x;y\n", "ignore=blank_row", "", "1 9"),
    "a mark at the beginning": ("\ufeff", "", "", ""),
    "a mark in the middle": ("1;x;y\n\ufeff2;x;y\n9;x;y\n", "", "3-3 byte_order_mark", "1 9"),
    "a mark and a header": ("1;x;y\n\ufeffnumber;a;b\n9;x;y\n", "", "3-3 second_header", "1 9"),
    "U+0000": ("1;x;y\n2;x\0;y\n9;x;y\n", "", "3-3 nul_character", "1 9"),
    "a byte of another encoding": (b"1;x;y\n2;M\xfcller;y\n9;x;y\n", "", "3-3 wrong_encoding", "1 9"),
    "a byte that cp1252 lacks": (b"1;x;y\n2;\x81;y\n9;x;y\n", "encoding=cp1252", "3-3 wrong_encoding", "1 9"),
    "a row of UTF-8 in cp1252": (b"1;M\xfcller;y\n9;M\xc3\xbcller;y\n", "encoding=cp1252", "", "1 9"),
    "an empty key": ("1;x;y\n;x;y\n9;x;y\n", "", "3-3 number_missing", "1 9"),
    "a row twice": ("1;x;y\n2;x;y\n2;x;y\n9;x;y\n", "", "3-3 account_twice|4-4 account_twice", "1 9"),
    "a trailer": ("1;x;y\n9;x;y\n### 2\n", "", "4-4 wrong_number_of_cells", "1"),
    "a trailer that is known": ("1;x;y\n9;x;y\n### 2\n", "comment=###", "", "1 9"),
    "CR alone": (b"1;x;y\r2;x;y\r9;x;y", "", "", "1 2 9"),
    "line ends of all kinds": (b"1;x;y\r\n2;x;y\r3;\"a\rb\";y\n9;x;y\r\n", "", "", "1 2 3 9"),
    "no line end": ("1;x;y\n9;x;y", "", "", "1 9"),
    "a delimiter in quotes": ('1;x;y\n2;"a;b ""c""";y\n9;x;y\n', "", "", "1 2 9"),
    "a quote in a cell": ('1;x;y\n2;TV 24";y\n9;x;y\n', "", "", "1 2 9"),
    "quotes that are text": ('1;x;y\n2;"x;y\n9;x;y\n', "quote=none", "", "1 2 9"),
    "a cell of ten megabytes": (f"1;x;y\n2;{'x' * 10_000_000};y\n9;x;y\n", "", "3-3 row_too_long", "1 9"),
    "nothing but a header": ("", "", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", _DIRT)
def test_each_kind_of_dirt_is_found_with_its_rows(name: str, tmp_path: Path) -> None:
    rows, options, expected, accounts = _DIRT[name]
    content = rows if isinstance(rows, bytes) else rows.encode()
    if rows == "\ufeff":
        content, header, accounts = b"1;x;y\n", b"\xef\xbb\xbf" + _HEADER, "1"
    else:
        header = _HEADER.replace(b"\n", b"\r") if name == "CR alone" else _HEADER
    result = convert(tmp_path, _SQL.replace("key=", f"{options} key="), c_csv=header + content)
    assert (problems(tmp_path), numbers(tmp_path)) == (expected.split("|") if expected else [], accounts)
    assert result.exit_code == (1 if expected or not accounts else 0), result.output


def test_cells_are_what_they_were(tmp_path: Path) -> None:
    rows = '\u00a01 ;" a\nb ""c"" ; d";"u0a;"\n2;Müller €;TV 24"\n3;a\t;\n'
    assert convert(tmp_path, _SQL, c_csv=_HEADER + rows.encode()).exit_code == 0
    cells = [(it.get("billing_address1"), it.get("billing_address2")) for it in book(tmp_path)]
    assert cells == [('a\nb "c" ; d', "u0a;"), ("Müller €", 'TV 24"'), ("a", None)]
    assert numbers(tmp_path) == "1 2 3"


_PAYMENTS = """-- source c: c.csv delimiter=; key=number
-- source p: p-*.csv* delimiter=; key=number
-- source codes: codes.csv lookup=yes
create view left_out as select _row, 'reversed' as reason from p where kind = 'R';
create view paid as select number,
  list({'transaction_id': id, 'transaction_date': '2026-03-01', 'amount': amount(a), 'type': meaning,
  'payment_type': null, '_row': p._row} order by p._row) as items
from p join codes on code = kind where kind <> 'R' group by number;
select number as external_account_number, 'CODE' as import_supplier, c._row,
  [{'ledger_code': 'L', 'ledger_balance': 0, 'transactions_in_open_settlement_period': items}] as ledgers
from c left join paid using (number)"""
_FILES: dict[str, str | bytes] = {
    "c_csv": "number\n1\n02\n3\n4\n5\n",
    "p-1_csv": 'id;number;kind;a\nA;1;P;1,00\nB;02;P;2,00\nC;3;?;3,00\nD;9;P;4,00\nE;4;R;5,00\nF;2;"P";x\n',
    "codes_csv": "code,meaning\nP,PAYMENT\n",
}


def test_a_row_that_is_nowhere_holds_back_its_account_and_the_sum_has_all(tmp_path: Path) -> None:
    more = gzip.compress(b"id;number;kind;a\nG;1;P;6,00\nH;5;P\n")
    result = convert(tmp_path, _PAYMENTS, **_FILES, **{"p-2_csv": b"", "p-2_csv_gz": more})
    assert (result.exit_code, "p-2.csv is empty" in result.stderr) == (2, True)
    (tmp_path / "p-2.csv").unlink()
    result = convert(tmp_path, _PAYMENTS)
    assert result.exit_code == 1, result.output
    # 3 has an unknown code, 02 a row whose number has lost its zero, 5 a row with too few cells.
    named = {(it["file"], it["first_row"], it["accounts"]) for it in read_csv(tmp_path / "errors.csv")}
    assert named == {
        ("p-1.csv", "4", "3"),
        ("p-1.csv", "5", ""),
        ("p-1.csv", "7", "02"),
        ("p-2.csv.gz", "3", "1, 5"),
    }
    assert numbers(tmp_path) == "4"
    assert "p-1.csv: 6 rows = 0 used + 1 left out (reversed) + 2 held back + 3 refused\n" in result.stderr
    assert "p-2.csv.gz: 2 rows = 0 used + 1 held back + 1 refused\n" in result.stderr
    assert result.stderr.endswith("1 account in " + str(tmp_path / "book.ndjson") + ", 4 held back\n")


def test_the_parts_of_an_account_lead_to_their_rows(tmp_path: Path) -> None:
    files = _FILES | {
        "p-1_csv": "id;number;kind;a\nA;1;P;1,00\nB;02;P;x\n",
        "p-2_csv": "id;number;kind;a\nC;1;P;2-\n",
    }
    assert convert(tmp_path, _PAYMENTS, **files).exit_code == 0
    found = {
        (it["account"], it["path"], it["file"], it["row"])
        for it in read_csv(tmp_path / "book.ndjson.rows.csv")
    }
    place = "ledgers.0.transactions_in_open_settlement_period"
    assert {it for it in found if it[1]} == {
        ("1", f"{place}.0", "p-1.csv", "2"),
        ("1", f"{place}.1", "p-2.csv", "2"),
        ("02", f"{place}.0", "p-1.csv", "3"),
    }
    assert {it for it in found if not it[1]} == {
        (it, "", "c.csv", str(row)) for row, it in enumerate(("1", "02", "3", "4", "5"), 2)
    }
    assert [
        it["amount"] for it in book(tmp_path)[0]["ledgers"][0]["transactions_in_open_settlement_period"]
    ] == ["1.00", "-2"]
    assert set(book(tmp_path)[2]) == {"external_account_number", "import_supplier", "ledgers"}


def test_what_is_null_or_empty_is_left_out(tmp_path: Path) -> None:
    context = "{'Factuur nr': a, 'leeg': null, 'deel': {'leeg': null, '_row': _row}, 'lijst': [null, 1.50]}"
    statements = (
        f"[null, {{'number': null, '_row': _row}}, {{'statement_pdf_context': {context}, '_row': _row}}]"
    )
    sql = _SQL.replace("_row\n", f"{statements} as statements, [{{'mobile': null}}] as customers, _row\n", 1)
    assert convert(tmp_path, sql, c_csv=_HEADER + b"1;x;\n").exit_code == 0
    (made,) = book(tmp_path)
    assert made == {
        "external_account_number": "1",
        "import_supplier": "CODE",
        "billing_address1": "x",
        "statements": [{"statement_pdf_context": {"Factuur nr": "x", "lijst": [Decimal("1.50")]}}],
    }
    rows = read_csv(tmp_path / "book.ndjson.rows.csv")
    assert sorted(it["path"] for it in rows) == ["", "statements.0"]


def test_commands_say_of_which_rows_something_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    person = "{'family_name': a, 'date_of_birth': b, '_row': _row}"
    sql = _SQL.replace("a as billing_address1, b as billing_address2", f"[{person}, {person}] as customers")
    assert convert(tmp_path, sql, c_csv=_HEADER + b"1;Mulder;2000-13-01\n2;Smit;2000-01-01\n").exit_code == 0

    def run(*arguments: str) -> str:
        return CliRunner().invoke(main, arguments, env={"MIGRATION_CLIENT_KEY": "k" * 40}).output

    lines = [it.split("\t") for it in run("check", "book.ndjson").splitlines()]
    assert ["invalid_date", "1", "c.csv, row 2"] in [[it[0], it[2], it[-1]] for it in lines if len(it) > 5]
    # What `fix` has removed from lists has changed the paths of that account.
    run("fix", "book.ndjson", "-o", "fixed.ndjson", "--accept", "guess")
    assert {it["account"] for it in read_csv(tmp_path / "fixed.ndjson.rows.csv")} == {"1"}
    found = {"code": "invalid_date", "attr": "customers.0.date_of_birth", "detail": "It is none."}
    line = {"line_number": 1, "external_account_number": "1", "status": "FAILED", "errors": [found]}
    order = make_order(read_book(tmp_path / "book.ndjson"), {"supplier": "CODE", "round": 1})
    with Journal(tmp_path / "book.ndjson.journal", "send", lambda _: None) as journal:
        for record in ({"run": order, "began": "now"}, line):
            journal.append(record)
    assert "\tinvalid_date at customers.0.date_of_birth\tc.csv, row 2\n" in run("results", "book.ndjson")
    assert run("failed", "book.ndjson").endswith("\n1: c.csv, row 2\n")
    # A book that was changed by hand is no longer what was made of them.
    os.utime(tmp_path / "book.ndjson.rows.csv", ns=(0, 2**60))
    os.utime(tmp_path / "book.ndjson", ns=(0, 2**60))
    assert "c.csv" in run("check", "book.ndjson")
    os.utime(tmp_path / "book.ndjson", ns=(0, 2**60 + 1))
    assert "c.csv" not in run("check", "book.ndjson") + run("results", "book.ndjson.journal")


def test_without_a_key_all_accounts_are_held_back(tmp_path: Path) -> None:
    result = convert(tmp_path, _SQL.replace("key=number", ""), c_csv=_HEADER + b"1;x\n2;x;y\n")
    assert (result.exit_code, numbers(tmp_path)) == (1, "")
    assert problems(tmp_path) == ["2-2 wrong_number_of_cells", "1-1 key_missing"]


def test_a_row_that_is_used_and_left_out_is_named(tmp_path: Path) -> None:
    sql = _SQL.replace(
        "select", "create view left_out as select _row, unnest(['a', 'b']) as reason from c;\nselect", 1
    )
    assert convert(tmp_path, sql, c_csv=_HEADER + b"1;x;y\n").exit_code == 1
    assert problems(tmp_path) == ["2-2 left_out_and_used"]


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (
            "-- source c",
            "-- sauce c",
            "No comment names a source, such as: -- source customers: customers.csv",
        ),
        ("c.csv", "no.csv", "no.csv: No such file or directory."),
        ("c.csv", "x*.csv", "No file fits the pattern x*.csv."),
        ("delimiter", "delimeter", "Line 1: 'delimeter' is no option of a source: did you mean delimiter?"),
        ("delimiter=;", "delimiter=;;", "Line 1: delimiter and quote are one ASCII character each."),
        ("key=", "encoding=latin9000 key=", "Line 1: 'latin9000' is no encoding."),
        ("key=", "ignore=broken_quotes key=", "Line 1: only blank_row and second_header can be ignored"),
        ("key=number", "key=nr", "c.csv has no column 'nr', which key= names."),
        ("delimiter=;", "'", "Line 1, source c: No closing quotation."),
        ("\nselect", "\n-- source C: c.csv\nselect", "The source c is there twice."),
        ("select", "\nselect nothing,", 'book.sql, line 3: Binder Error: Referenced column "nothing"'),
        ("from c order", "fro m c order", "book.sql, line 4: Parser Error: syntax error at or near"),
        (_SQL, "-- source c: c.csv delimiter=;\n", "book.sql has no query."),
        ("select", "select 1;\nselect", "line 1: Expected one query, as the last statement."),
        ("by _row", "by _row;\ncreate view x as select 1", "Expected one query, as the last statement."),
        ("select", "delete from c;\nselect", "line 1: DELETE is not allowed: only `create` and one query."),
        (
            "billing_address1",
            "biling_address1",
            "biling_address1 is no field: did you mean billing_address1?",
        ),
        ("'CODE' as import_supplier,", "", "the query has no column import_supplier."),
        ("_row\n", "[{'amont': 1}] as statements\n", "statements.amont is no field"),
        ("_row\n", "{'number': 1} as statements\n", "statements is STRUCT(number INTEGER), but a list is"),
        (
            "_row\n",
            "[{'ledger_balance': 1.5::double}] as ledgers\n",
            "ledgers.ledger_balance is DOUBLE, which",
        ),
        ("a as", "now()::timestamp as", "Write it as text: strftime(billing_address1"),
        ("a as", "error('Row 1') as", "Row 1"),
        (
            "_row\n",
            "[{'statement_pdf_context': {'24\"': 1}}] as statements\n",
            "a member has a quote, a backslash or a control character in its name.",
        ),
        ("_row\n", "'1' as _row\n", "_row is VARCHAR, but it is the `_row` of a source, or a list of them."),
        (
            "select",
            "create view left_out as select _row, null as reason from c;\nselect",
            "without a reason.",
        ),
        (
            "select",
            "create or replace table sources.c as select range as _row, 1 as number, 2 as a, 3 as b "
            "from range(9);\n"
            "select",
            "The rows of c.csv do not add up: the SQL changes a source.",
        ),
        ("key=", "encoding=base64 key=", "Line 1: 'base64' is no encoding."),
        # Neither other files nor the network.
        ("from c", "from read_text('/etc/passwd'), c", 'Cannot access file "/etc/passwd"'),
        ("from c", "from 'http://127.0.0.1:9/a.csv', c", "file system operations are disabled"),
        ("select", "copy (select 1) to 'x.csv';\nselect", "COPY is not allowed"),
        ("select", "set threads = 1;\nselect", "SET is not allowed"),
        ("select", "install excel;\nselect", "is not allowed"),
        ("select", "create secret (type http);\nselect", "disabled by configuration"),
    ],
)
def test_sql_that_cannot_be_run_is_one_sentence_with_its_line(
    right: str, wrong: str, says: str, tmp_path: Path
) -> None:
    assert right in _SQL
    sql = _SQL.replace(right, wrong, 1)
    (tmp_path / "book.ndjson").write_text("the book of yesterday")
    result = convert(tmp_path, sql, c_csv=_HEADER + b"1;x;y\n")
    assert says in result.stderr
    assert result.exit_code == 2
    assert {it.name for it in tmp_path.iterdir()} == {"c.csv", "book.sql", "book.ndjson"}
    assert (tmp_path / "book.ndjson").read_text() == "the book of yesterday"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("c.csv", b"", "c.csv is empty. Expected a header with the names of its columns."),
        ("c.csv", b"number;a;A\n", "c.csv has the column 'A' twice."),
        ("c.csv", b"number;_row;b\n", "c.csv has the column '_row' twice."),
        (
            "c.csv",
            _HEADER.decode().encode("utf-16"),
            "c.csv is text in UTF-16. Set encoding=utf-16 of the source.",
        ),
        ("c.csv", gzip.compress(_HEADER * 9000, mtime=0)[:-20], "c.csv: the gzip data is cut off or broken"),
        ("c.csv", b"PK\x03\x04", "c.csv is a ZIP file."),
        ("c.csv encoding=utf-16", _HEADER.decode().encode("utf-16")[:-1], "c.csv is not in its encoding: "),
        ("c.csv", b"\xff;a;b\n", "c.csv: the header cannot be read. Is its encoding utf-8?"),
        ("c.xlsx", b"PK\x03\x04", "c.xlsx cannot be read as a workbook: "),
        ("c.parquet", b"PAR1", "c.parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    name: str, content: bytes, says: str, tmp_path: Path
) -> None:
    (tmp_path / name.partition(" ")[0]).write_bytes(content)
    result = convert(tmp_path, _SQL.replace("c.csv", name))
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr


def test_other_forms_of_tables_are_read_as_text(tmp_path: Path) -> None:
    rows = "number;a;b\n01;Müller €;0.10\n2;x;\n"
    (tmp_path / "utf.csv").write_bytes(rows.encode("utf-16"))
    (tmp_path / "headless.csv").write_text("01,Müller €,0.10\n2,x,\n")
    query = "select * from (values ('01', 'Müller €', 0.10::decimal(4, 2)), ('2', 'x', null)) t(number, a, b)"
    duckdb.execute(f"copy ({query}) to '{tmp_path}/t.parquet'")
    write_workbook(tmp_path / "book.xlsx")
    for source in (
        "utf.csv encoding=utf-16 delimiter=;",
        "headless.csv header=number,a,b",
        "t.parquet",
        "book.xlsx sheet=Klanten",
    ):
        result = convert(tmp_path, re.sub("c.csv delimiter=;", source, _SQL))
        assert (result.exit_code, numbers(tmp_path)) == (0, "01 2"), result.output
        assert [it.get("billing_address1") for it in book(tmp_path)] == ["Müller €", "x"]
        assert [it.get("billing_address2") for it in book(tmp_path)] == ["0.10", None]
        assert [it["row"] for it in read_csv(tmp_path / "book.ndjson.rows.csv")] == (
            ["1", "2"] if source.startswith(("head", "t.")) else ["2", "3"]
        )
    sql = (
        "-- source c: book.xlsx sheet=Tab2 key=n\nselect n as external_account_number, s as import_supplier, "
        + ", ".join(f"{it} as billing_address{place}" for place, it in enumerate("dtfu", 1))
    )
    result = convert(tmp_path, sql + ", x as billing_postcode, _row from c")
    assert (problems(tmp_path), result.exit_code) == (["3-3 blank_row"], 1), result.output
    expected = ["2026-03-01", "2026-03-01T20:20:00", "0.3", "=A1+B1", "8.71694330222773e+17"]
    [account] = book(tmp_path)
    assert [
        account[it] for it in (*(f"billing_address{it}" for it in range(1, 5)), "billing_postcode")
    ] == expected
    assert convert(tmp_path, sql.replace("Tab2", "Tab3") + " from c").stderr.endswith(
        "has no sheet 'Tab3', but Klanten, Tab2.\n"
    )


def write_workbook(path: Path) -> None:
    """Write a workbook with texts, dates, formulas with and without a value, and an EAN that was rounded."""
    name = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    link = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    texts = ["number", "a", "b", "01", "Müller €", "x", "0.10"]
    shared = "".join(f"<si><r><t>{it}</t></r></si>" for it in texts)
    first = (
        "".join(
            f"<row r='{row}'>"
            + "".join(f"<c r='{place}{row}' t='s'><v>{at}</v></c>" for place, at in cells)
            + "</row>"
            for row, cells in ((1, (("A", 0), ("B", 1), ("C", 2))), (2, (("A", 3), ("B", 4), ("C", 6))))
        )
        + "<row r='3'><c r='A3'><v>2</v></c><c r='B3' t='inlineStr'><is><t>x</t></is></c></row>"
    )
    header = "".join(f"<c t='str'><v>{it}</v></c>" for it in "nsdtfux")
    second = (
        f"<row>{header}</row><row r='2'><c><v>1</v></c><c t='str'><v>CODE</v></c><c s='1'><v>46082</v></c>"
        "<c s='2'><v>46082.84722222222</v></c><c><f>A1</f><v>0.30000000000000004</v></c><c><f>A1+B1</f></c>"
        "<c><v>8.71694330222773E+17</v></c></row>"
        "<row r='3'><c><v></v></c></row>"
    )
    parts = {
        "workbook": f"<workbook {name} xmlns:r='{link}'><sheets><sheet name='Klanten' r:id='r1'/>"
        "<sheet name='Tab2' r:id='r2'/></sheets></workbook>",
        "_rels/workbook": "<Relationships><Relationship Id='r1' Target='worksheets/sheet1.xml'/>"
        "<Relationship Id='r2' Target='/xl/worksheets/sheet2.xml'/></Relationships>",
        "sharedStrings": f"<sst {name}>{shared}</sst>",
        "styles": f"<styleSheet {name}><numFmts><numFmt numFmtId='164' formatCode='[$-413]d m h'/></numFmts>"
        "<cellXfs><xf numFmtId='0'/><xf numFmtId='14'/><xf numFmtId='164'/></cellXfs></styleSheet>",
        "worksheets/sheet1": f"<worksheet {name}><sheetData>{first}</sheetData></worksheet>",
        "worksheets/sheet2": f"<worksheet {name}><sheetData>{second}</sheetData></worksheet>",
    }
    with zipfile.ZipFile(path, "w") as file:
        for part, content in parts.items():
            file.writestr(f"xl/{part}.xml{'.rels' if part.startswith('_') else ''}", content)


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        ("notes", "[{'body': a, 'created_at': '2026-03-01T10:00:00Z', '_row': _row}]"),
        ("transactions", "[{'transaction_id': a, 'amount': b, '_row': _row}]"),
        ("statements", "[{'statement_id': a, 'gross_amount': b, '_row': _row}]"),
    ],
)
def test_added_data_is_made_in_the_same_way(kind: str, items: str, tmp_path: Path) -> None:
    sql = _SQL.replace("a as billing_address1, b as billing_address2, _row", f"{items} as {kind}")
    result = convert(tmp_path, sql, "--kind", kind, c_csv=_HEADER + b"1;x;2\n1;y;3\n")
    assert (result.exit_code, numbers(tmp_path)) == (0, "1 1"), result.output
    assert f"2 lines in {tmp_path / 'book.ndjson'}\n" in result.stderr
    assert convert(tmp_path, sql).exit_code == (1 if kind == "statements" else 2)  # one account twice


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
    truth = make_export(tmp_path, 400, each=2)
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


def test_a_first_file_says_what_is_in_the_files(tmp_path: Path) -> None:
    folder = ROOT / "docs" / "suppliers" / "from-csv"
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())

    (tmp_path / "halves.csv").write_text("id;half;less\n1;01-02-2026;01-02-2026\n2;x;x\n3;;x\n")

    def run(*options: str) -> Result:
        return CliRunner().invoke(main, ["convert", str(tmp_path / "book.sql"), *options])

    assert run("--start", str(tmp_path)).exit_code == 0
    text = (tmp_path / "book.sql").read_text()
    for said in (
        "-- source customers: 'customers.csv' delimiter=; key='number'\n--   9 rows\n",
        "-- source invoices: 'invoices.csv' delimiter=; encoding=cp1252 key='number'\n",
        "--   3 rows, 1 wrong_number_of_cells\n",
        "-- source meters: 'meters.csv' delimiter=; key='ean'\n",
        "--   owes: 9 values, 6 different, decimal comma 9\n",
        "--   from: 2 values, 1 different, %d-%m-%Y 2 (2 ambiguous: %m-%d-%Y), %m-%d-%Y 2 (2 ambiguous: ",
        "--   half: 2 values, 2 different, %d-%m-%Y 1 (1 ambiguous: ",
        "--   less: 3 values, 2 different\n",
    ):
        assert said in text, text
    # It is a conversion that can be run: nothing is made of the other files yet.
    assert '"number" as external_account_number' in text
    assert text.endswith("from customers\n")
    assert run("-o", str(tmp_path / "book.ndjson")).exit_code == 1
    assert run("--start", str(tmp_path)).stderr.endswith(
        "book.sql exists. Expected the name of a new file.\n"
    )
    assert run().exit_code == 2


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
