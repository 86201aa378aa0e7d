"""`migration-client convert`: flat files become accounts, and what does not map is told by row and column."""

import csv
import json
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from documentation.pages import ROOT
from migration_service_client.command import main
from migration_service_client.command.conversion.problems import Code
from migration_service_client.command.conversion.reading import read_mapping
from migration_service_client.command.conversion.template import template

_FORMAT = """
[format]
delimiter = ";"
dates = "DD-MM-YYYY"
decimal = ","
thousands = "."
empty = "-"
[codes.kinds]
E = "ELECTRICITY"
[files.customers]
key = "number"
"""
_ACCOUNT = """
[account]
from = "customers"
external_account_number = "number"
import_supplier = { value = "CODE" }
"""
_PAYMENTS = """
[files.payments]
[account.ledgers]
ledger_code = { value = "L" }
ledger_balance = { value = 0 }
[account.ledgers.historical_statement_transactions]
from = "payments"
join = "number"
when = { open = "N" }
transaction_id = "id"
transaction_date = "date"
amount = "amount"
type = { value = "PAYMENT" }
[account.ledgers.historical_statement_transactions.line_items]
from = "lines"
join = { payment = "id" }
rate_band = { value = "X" }
net_amount = "amount"
[files.lines]
"""


def convert(folder: Path, mapping: str, files: Mapping[str, str | bytes]) -> Result:
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / f"{name}.csv").write_bytes(data)
    (folder / "mapping.toml").write_text(mapping)
    places = ["-o", str(folder / "book.ndjson"), "--errors", str(folder / "errors.csv")]
    return CliRunner().invoke(main, ["convert", str(folder / "mapping.toml"), *places])


def book(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "book.ndjson").read_text().splitlines()
    return [json.loads(line, parse_float=Decimal) for line in lines]


def problems(folder: Path) -> list[str]:
    """The file, the row, the column and the code of each problem."""
    with (folder / "errors.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["detail"].endswith(".") for row in rows)
    return [" ".join(filter(None, (it["file"], it["row"], it["column"], it["code"]))) for it in rows]


def test_rows_are_joined_grouped_and_nested(tmp_path: Path) -> None:
    mapping = """
        [files.rows]
        [files.people]
        path = "who.csv"
        key = "id"
        [account]
        from = "rows"
        group = "number"
        external_account_number = "number"
        import_supplier = { value = "CODE" }
        [account.customers]
        from = "people"
        join = { id = "person" }
        family_name = { column = ["prefix", "name"] }
        [account.customers.customer_preferences]
        opted_into_sms = "sms"
        [account.supply_addresses]
        group = ["street", "house"]
        supply_address1 = "street"
        supply_address2 = "house"
        [[account.supply_addresses.meter_points]]
        when = { kind = ["E", "e"] }
        ean = "ean"
        supply_type = { value = "ELECTRICITY" }
        [[account.supply_addresses.meter_points]]
        when = { kind = "G" }
        ean = "ean"
        supply_type = { value = "GAS" }
        [account.ledgers]
        group = "number"
        ledger_code = { value = "ENERGY" }
        ledger_balance = { value = 0.10 }
        identifiers = { column = "ean" }
        [account.ledgers.historical_statement_transactions]
        group = "number"
        transaction_id = "number"
        transaction_date = { value = 2026-03-01 }
        amount = { value = 1 }
        type = { value = "SUPPLY_CHARGE" }
        [account.ledgers.historical_statement_transactions.line_items]
        rate_band = { value = "X" }
        net_amount = { value = 1 }
        units = ["first", "last"]
    """
    rows = (
        "number,person,street,house,ean,kind,first,last\n"
        "A,1,High,1,11,E,10.50,\n"
        "B,1,Low,9,44,e,,\n"
        "A,1,High,1,22,G,1,2\n"
        "A,1,High,2,33,E,3,4\n"
    )
    result = convert(tmp_path, mapping, {"rows": rows, "who": "id,prefix,name,sms\n1,van den,Berg,yes\n"})
    assert (result.exit_code, problems(tmp_path)) == (0, [])
    first, second = book(tmp_path)
    person = {"family_name": "van den Berg", "customer_preferences": {"opted_into_sms": True}}
    electricity, gas = {"supply_type": "ELECTRICITY"}, {"supply_type": "GAS"}
    lines = [
        {"rate_band": "X", "net_amount": 1, "units": units} for units in ([Decimal("10.50")], [1, 2], [3, 4])
    ]
    charge = {"transaction_date": "2026-03-01", "amount": 1, "type": "SUPPLY_CHARGE"}
    ledger = {"ledger_code": "ENERGY", "ledger_balance": Decimal("0.10")}
    assert first == {
        "external_account_number": "A",
        "import_supplier": "CODE",
        "customers": [person],
        "supply_addresses": [
            {
                "supply_address1": "High",
                "supply_address2": "1",
                "meter_points": [{"ean": "11"} | electricity, {"ean": "22"} | gas],
            },
            {
                "supply_address1": "High",
                "supply_address2": "2",
                "meter_points": [{"ean": "33"} | electricity],
            },
        ],
        "ledgers": [
            ledger
            | {
                "identifiers": ["11", "22", "33"],
                "historical_statement_transactions": [{"transaction_id": "A", "line_items": lines} | charge],
            }
        ],
    }
    assert second["customers"] == [person]
    assert second["supply_addresses"][0]["meter_points"] == [{"ean": "44"} | electricity]


_POINT = '[account.supply_addresses.meter_points]\nean = { value = "1" }\nsupply_type = { value = "GAS" }\n'
_VOLUME = (
    f"{_POINT}[account.supply_addresses.meter_points.estimated_annual_volumes]\n"
    'direction = { value = "CONSUMPTION" }\n'
)
_ADVANCE = (
    f"{_POINT}[account.supply_addresses.meter_points.agreements]\n"
    'supply_type = { value = "GAS" }\neffective_from = { value = 2024-01-01 }\n'
    'tariff_code = { value = "T" }\n'
    "[account.supply_addresses.meter_points.agreements.monthly_advance_charge_template]\n"
)
_LEDGER = '[account.ledgers]\nledger_code = { value = "L" }\n'


@pytest.mark.parametrize(
    ("field", "cell", "expected"),
    [
        ('billing_address1 = "c"', "Citroënhof", '"billing_address1":"Citroënhof"'),
        ('billing_address1 = "c"', '"Hof ""Zon"";\r\n2"', r'"billing_address1":"Hof \"Zon\";\n2"'),
        ('billing_address1 = "c"', " a ", '"billing_address1":"a"'),
        ('billing_address1 = "c"', "-", None),
        ('billing_address1 = { column = "c", empty = "?" }', "?", None),
        ('billing_address1 = { column = "c", default = "Markt" }', "-", '"billing_address1":"Markt"'),
        ('billing_address1 = { column = ["c", "number"], between = "/" }', "a", '"billing_address1":"a/1"'),
        ('billing_address1 = { column = ["c", "number"] }', "-", '"billing_address1":"1"'),
        ('unknown_occupier = { column = "c", codes = { J = true } }', "J", '"unknown_occupier":true'),
        ('unknown_occupier = { column = "c", codes = { J = "" } }', "J", None),
        ('unknown_occupier = "c"', "no", '"unknown_occupier":false'),
        (f'{_POINT}supply_start_date = "c"', "29-02-2024", '"supply_start_date":"2024-02-29"'),
        (
            f'{_POINT}supply_start_date = {{ column = "c", dates = ["D/M/YYYY", "YYYYMMDD"] }}',
            "3/2/2024",
            "2024-02-03",
        ),
        (
            f'{_POINT}supply_start_date = {{ column = "c", dates = ["D/M/YYYY", "YYYYMMDD"] }}',
            "20240203",
            "2024-02-03",
        ),
        (f'{_VOLUME}start_at = "c"', "01-02-2024", '"start_at":"2024-02-01T00:00:00"'),
        (
            f'{_VOLUME}start_at = {{ column = "c", dates = "DD-MM-YYYY hh:mm" }}',
            "01-02-2024 13:05",
            "T13:05:00",
        ),
        (f'{_LEDGER}ledger_balance = "c"', "1.012,50", '"ledger_balance":1012.50'),
        (f'{_LEDGER}ledger_balance = "c"', "1012,5-", '"ledger_balance":-1012.5'),
        (f'{_LEDGER}ledger_balance = "c"', "0,1000000000000000055", '"ledger_balance":0.1000000000000000055'),
        (f'{_LEDGER}ledger_balance = {{ column = "c", times = -1 }}', "49,28", '"ledger_balance":-49.28'),
        (f'{_LEDGER}ledger_balance = {{ column = "c", times = -1 }}', "0,00", '"ledger_balance":0'),
        (f'{_LEDGER}ledger_balance = {{ column = "c", times = 100 }}', "49,28", '"ledger_balance":4928}'),
        (f'{_LEDGER}ledger_balance = {{ column = "c", times = 0.01 }}', "4928", '"ledger_balance":49.28'),
        (
            f'{_ADVANCE}total_monthly_advance_amount = "c"',
            "1.100,10",
            '"total_monthly_advance_amount":"1100.10"',
        ),
    ],
)
def test_a_cell_becomes_the_value_of_a_field(
    tmp_path: Path, field: str, cell: str, expected: str | None
) -> None:
    result = convert(tmp_path, _FORMAT + _ACCOUNT + field, {"customers": f"number;c\r\n1;{cell}\r\n"})
    assert (result.exit_code, problems(tmp_path)) == (0, [])
    written = (tmp_path / "book.ndjson").read_text()
    assert (
        written == '{"external_account_number":"1","import_supplier":"CODE"}\n'
        if expected is None
        else expected in written
    )


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("utf-8", "\ufeffnumber;c\r\n1;Müller €\r\n".encode()),
        ("cp1252", "number;c\n1;Müller €\n".encode("cp1252")),
        ("utf-16", "number;c\n1;Müller €\n".encode("utf-16")),
        ("utf-16-le", "\ufeffnumber;c\n1;Müller €\n".encode("utf-16-le")),
    ],
)
def test_each_encoding_is_read_with_its_byte_order_mark(
    tmp_path: Path, encoding: str, content: bytes
) -> None:
    mapping = f'{_FORMAT}encoding = "{encoding}"{_ACCOUNT}billing_address1 = "c"'
    assert convert(tmp_path, mapping, {"customers": content}).exit_code == 0
    assert book(tmp_path)[0]["billing_address1"] == "Müller €"


@pytest.mark.parametrize(
    ("field", "rows", "expected", "written"),
    [
        ('billing_address1 = "d"', "1;a", ["customers 1 d missing_column"], None),
        ('billing_address1 = "c"', "1;a;b\n2;b", ["customers 2 ragged_row"], "2"),
        ('billing_address1 = "c"', "1;a\n2", ["customers 3 ragged_row"], "1"),
        ('billing_address1 = "c"', '1;"a\nb"\n2;"a"b\n3;c', ["customers 4 broken_quotes"], "13"),
        ('billing_address1 = "c"', '1;a\n2;"b\n3;c', ["customers 3 broken_quotes"], "1"),
        ('billing_address1 = "c"', "1;a\0\n2;b", ["customers 2 c nul_character"], "2"),
        ('billing_address1 = "c"', b"1;M\xfcller\n2;b", ["customers 2 c wrong_encoding"], "2"),
        ('billing_address1 = "c"', ";a\n2;b", ["customers 2 number empty_key"], "2"),
        ('billing_address1 = "c"', "1;a\n2;b\n1;a", ["customers 4 number repeated_row"], "12"),
        (
            'billing_address1 = "c"',
            "1;a\n2;b\n1;c",
            ["customers 2 number duplicate_key", "customers 4 number duplicate_key"],
            "2",
        ),
        (f'{_POINT}supply_start_date = "c"', "1;31-02-2024\n2;-", ["customers 2 c bad_date"], "2"),
        (f'{_POINT}supply_start_date = "c"', "1;1-2-2024", ["customers 2 c bad_date"], ""),
        (
            f'{_LEDGER}ledger_balance = "c"',
            "1;1,012.50\n2;1.01\n3;--1\n4;1",
            [f"customers {it} c bad_number" for it in (2, 3, 4)],
            "4",
        ),
        ('unknown_occupier = "c"', "1;perhaps", ["customers 2 c bad_boolean"], ""),
        (
            f'{_POINT}last_billed_to_date = "c"'.replace(
                'supply_type = { value = "GAS" }', 'supply_type = { column = "number", codes = "kinds" }'
            ),
            "E;-\nX;-",
            ["customers 3 number unknown_code"],
            "E",
        ),
        (_POINT.replace('{ value = "1" }', '"c"'), "1;8,7E+17", ["customers 2 c spreadsheet_number"], ""),
    ],
)
def test_what_does_not_map_is_told_by_row_and_column(
    tmp_path: Path, field: str, rows: str | bytes, expected: list[str], written: str | None
) -> None:
    content = b"number;c\n" + (rows if isinstance(rows, bytes) else rows.encode())
    result = convert(tmp_path, _FORMAT + _ACCOUNT + field, {"customers": content})
    assert (result.exit_code, problems(tmp_path)) == (1, expected)
    assert "".join(it["external_account_number"] for it in book(tmp_path)) == (written or "")


def test_every_row_is_in_the_book_or_among_the_problems(tmp_path: Path) -> None:
    """An account is held back if a row of any depth that belongs to it has a problem."""
    payments = (
        *("1;P1;N;01-01-2026;1", "2;P2;N;01-01-2026;x", "9;P3;N;01-01-2026;1", "3;P4;?;01-01-2026;1"),
        *("4;P5;N;01-01-2026;1;extra", "5;P6;N;01-01-2026;1", ";P7;N;01-01-2026;1"),
    )
    files = {
        "customers": "number\n1\n2\n3\n4\n5\n",
        "payments": "\n".join(["number;id;open;date;amount", *payments]),
        "lines": "payment;amount\nP1;1\nP1;2\nP2;1\nP4;1\nP6;y\nP8;1\n",
    }
    result = convert(tmp_path, _FORMAT + _ACCOUNT + _PAYMENTS, files)
    assert result.exit_code == 1
    assert problems(tmp_path) == [
        "payments 3 amount bad_number",
        "payments 5 no_condition_met",
        "payments 6 ragged_row",
        "lines 6 amount bad_number",
        "payments 4 number row_without_parent",
        "payments 8 number row_without_parent",
        "lines 7 payment row_without_parent",
    ]
    ledgers = {it["external_account_number"]: it["ledgers"][0] for it in book(tmp_path)}
    assert ledgers.keys() == {"1"}
    [payment] = ledgers["1"]["historical_statement_transactions"]
    assert [it["net_amount"] for it in payment["line_items"]] == [1, 2]


def test_rows_that_are_skipped_are_left_out_with_what_belongs_to_them(tmp_path: Path) -> None:
    files = {
        "customers": "number;left\n1;N\n2;J\n",
        "payments": "number;id;open;date;amount\n2;P;N;01-01-2026;x\n",
        "lines": "payment;amount\nP;1\n",
    }
    mapping = f'{_FORMAT}skip = {{ left = "J" }}{_ACCOUNT}{_PAYMENTS}'
    result = convert(tmp_path, mapping, files)
    assert (result.exit_code, problems(tmp_path)) == (0, [])
    assert "1 account in " in result.stderr
    assert "1 left out by `skip`" in result.stderr


def test_rows_of_one_object_agree(tmp_path: Path) -> None:
    account = _ACCOUNT + 'group = "number"\nbilling_address1 = "c"\n[account.customers]\nfamily_name = "c"\n'
    convert(tmp_path, _FORMAT.replace("key", "#") + account, {"customers": "number;c\n1;a\n1;b\n2;a\n2;a\n"})
    assert problems(tmp_path) == ["customers 2 c rows_differ"]
    assert [len(it["customers"]) for it in book(tmp_path)] == [2]


def test_an_object_that_is_there_once_has_one_row(tmp_path: Path) -> None:
    mapping = (
        '[account.customers]\nfamily_name = "number"\n[account.customers.customer_preferences]\n'
        'from = "wishes"\njoin = "number"\nopted_into_sms = "sms"\n[files.wishes]'
    )
    files = {"customers": "number\n1\n2\n", "wishes": "number;sms\n1;true\n1;false\n2;true\n"}
    convert(tmp_path, _FORMAT + _ACCOUNT + mapping, files)
    assert problems(tmp_path) == ["wishes 3 several_rows"]
    [account] = book(tmp_path)
    assert account["customers"][0]["customer_preferences"] == {"opted_into_sms": True}


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ("fomat", "format", "at its top: 'fomat' is not a table here: did you mean format?"),
        (
            "delimeter",
            "delimiter",
            "format: 'delimeter' is not a setting here: did you mean delimiter?",
        ),
        ('delimiter = ";;"', 'delimiter = ";"', "`delimiter` and `quote` are one character each"),
        ("delimiter = 1", 'delimiter = ";"', ".delimiter: expected text, got a number."),
        ('encoding = "latin9000"', 'delimiter = ";"', "'latin9000' is no encoding."),
        ('dates = "DD-MM-JJJJ"', 'dates = "DD-MM-YYYY"', "'DD-MM-JJJJ' is no form of dates: 'JJJJ' has no"),
        ('thousands = ","', 'thousands = "."', "`decimal` and `thousands` are both ','."),
        (
            'from = "costumers"',
            'from = "customers"',
            "'costumers' is not one of the files here: did you mean customers?",
        ),
        (
            "import_suplier",
            "import_supplier",
            "account: 'import_suplier' is not a field here: did you mean import_supplier?",
        ),
        (
            "",
            'external_account_number = "number"',
            "account: the required field external_account_number is missing.",
        ),
        (
            "supplier = 1",
            'supplier = { value = "CODE" }',
            "expected the name of a column, or a table such as { value = 1 }.",
        ),
        ('{ vlaue = "CODE" }', '{ value = "CODE" }', "'vlaue' is not a setting here: did you mean value?"),
        (
            '{ value = "CODE", column = "a" }',
            '{ value = "CODE" }',
            "`value` is the same for all rows, and stands alone.",
        ),
        ("{ value = 5 }", '{ value = "CODE" }', "account.import_supplier.value: This is a number, not text."),
        (
            '{ column = "a", codes = "knds" }',
            '{ value = "CODE" }',
            "'knds' is not a list of [codes] here: did you mean kinds?",
        ),
        ('{ default = "a" }', '{ value = "CODE" }', "account.import_supplier: expected `column` or `value`."),
        ("[account", "[account]", "it is not TOML: "),
        ("[other]", "[account]", "at its top: 'other' is not a table here"),
        (
            'join = "number"',
            'from = "customers"',
            "account: expected `from`, the file with a row for each account",
        ),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused(tmp_path: Path, wrong: str, right: str, says: str) -> None:
    mapping = _FORMAT + _ACCOUNT
    assert right in mapping
    (tmp_path / "book.ndjson").write_text("the book of yesterday")
    result = convert(tmp_path, mapping.replace(right, wrong, 1), {"customers": "number\n1\n"})
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.startswith(f"Error: {tmp_path / 'mapping.toml'}: ")
    assert (tmp_path / "book.ndjson").read_text() == "the book of yesterday"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "customers.csv: No such file or directory."),
        (b"", "customers.csv is empty. Expected a header with the names of its columns."),
        (b"number;number\n", "customers.csv has the column 'number' twice. Rename one of them."),
        (
            "number\n".encode("utf-16"),
            "customers.csv begins as utf-16 does, but its encoding in the mapping is utf-8.",
        ),
        (b'"number\n', "customers.csv: the header cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, content: bytes | None, says: str) -> None:
    result = convert(tmp_path, _FORMAT + _ACCOUNT, {} if content is None else {"customers": content})
    assert (result.exit_code, says in result.stderr, result.stderr.count("\n")) == (2, True, 1)
    assert not list(tmp_path.glob("book.*"))


def test_check_writes_nothing_and_tells_the_same(tmp_path: Path) -> None:
    files = {"customers": "number;c;d\n1;a;\n1;b;\n" + "2;c\n" * 30}
    convert(tmp_path, _FORMAT + _ACCOUNT + 'billing_address1 = "c"', files)
    (tmp_path / "book.ndjson").unlink()
    result = CliRunner().invoke(main, ["convert", str(tmp_path / "mapping.toml"), "--check"])
    assert result.exit_code == 1
    assert "customers, row 2, column number: Another row has the same key" in result.stderr
    assert "... and 12 more\nragged_row: 30\nduplicate_key: 2\n0 accounts, 32 held back\n" in result.stderr
    assert "Note: the mapping does not use of customers: d\n" in result.stderr
    assert not (tmp_path / "book.ndjson").exists()


def test_the_template_is_a_mapping_and_so_it_is_with_every_field(tmp_path: Path) -> None:
    printed = CliRunner().invoke(main, ["convert", "--template"]).stdout
    assert printed == template()
    assert tomllib.loads(printed)["account"]["external_account_number"] == "COLUMN"
    head, _, account = printed.partition("[account]")
    everything = re.sub(r"(?m)^# ", "", account)
    (tmp_path / "mapping.toml").write_text(f"{head}[account]{everything}")
    assert read_mapping(tmp_path / "mapping.toml").files[0].columns.keys() == {"number", "COLUMN"}


def test_the_page_of_mappings_has_every_code() -> None:
    page = (ROOT / "docs/suppliers/mapping.md").read_text()
    assert [code for code in Code if f"`{code}`" not in page] == []
