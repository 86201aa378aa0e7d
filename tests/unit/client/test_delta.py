"""`migration-client delta` splits a book, and sees through another spelling of the same."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from migration_service_client.command import main
from migration_service_local.samples import generate_accounts
from support.batch_client import ndjson
from support.disks import disk_full_at


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the books."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def delta(old: Iterable[Any], new: Iterable[Any], *, compress: bool = False) -> tuple[int, dict[str, int]]:
    Path("old").write_bytes(ndjson(old, compress=compress))
    Path("new").write_bytes(ndjson(new, compress=compress))
    result = run("old", "new", "--json", "--unchanged")
    return result.exit_code, {name: number for name, number in json.loads(result.output).items() if number}


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, ["delta", *arguments, "-o", "parts"], **options)


def part(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(f"parts/{name}.ndjson").read_bytes().splitlines()]


def account(number: str, **members: Any) -> dict[str, Any]:
    return {"external_account_number": number, **members}


@pytest.mark.parametrize("compress", [False, True])
def test_each_account_is_in_the_part_of_what_happened_to_it(folder: Path, compress: bool) -> None:
    one, two, three, four, five = generate_accounts(5, supplier="S", first=40)
    changed = three | {"billing_address1": "Elders", "statements": three["statements"][:-1], "new": 1}
    code, counts = delta([one, two, three, four], [five, changed, one, four], compress=compress)
    assert (code, counts) == (1, {"unchanged": 2, "changed": 1, "new": 1, "vanished": 1})
    assert [part(name) for name in ("changed", "new", "vanished")] == [[changed], [five], [two]]
    assert part("unchanged") == [one, four]
    [difference] = part("paths")
    last = len(three["statements"]) - 1
    assert difference == {
        "external_account_number": three["external_account_number"],
        "old_line": 3,
        "new_line": 2,
        "paths": ["billing_address1", f"statements.{last}", "new"],
    }


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": [1e2, 1.10]}, {"a": [100, 1.1]}, True),
        ({"ledgers": [{"ledger_balance": "1.10"}]}, {"ledgers": [{"ledger_balance": 1.1}]}, True),
        ({"ledgers": [{"ledger_balance": "1.10"}]}, {"ledgers": [{"ledger_balance": "1.11"}]}, False),
        ({"ledgers": [{"ledger_balance": "none"}]}, {"ledgers": [{"ledger_balance": 0}]}, False),
        # Identifiers are no numbers.
        ({"ledgers": [{"ledger_code": "1.10"}]}, {"ledgers": [{"ledger_code": "1.1"}]}, False),
        ({"statement": "1"}, {"statement": 1}, False),
        ({"unknown_occupier": True}, {"unknown_occupier": 1}, True),
        ({"unknown_occupier": "false"}, {}, True),
        ({"unknown_occupier": True}, {}, False),
        # A whole number that no field reads has up to 4,300 digits.
        ({"a": int("1" * 250 + "2")}, {"a": int("1" * 250 + "3")}, False),
        ({"customers": []}, {}, True),
    ],
)
def test_only_what_means_something_else_is_a_change(
    folder: Path, old: dict[str, Any], new: dict[str, Any], same: bool
) -> None:
    code, counts = delta([account("1", **old)], [account("1", **new)])
    assert (code, counts) == ((0, {"unchanged": 1}) if same else (1, {"changed": 1}))


def test_numbers_keep_all_their_digits(folder: Path) -> None:
    lines = [b'{"external_account_number":"1","a":1.%s%d}' % (b"0" * 30, digit) for digit in (1, 2)]
    assert delta(lines[:1], lines[1:]) == (1, {"changed": 1})


def test_the_first_line_of_an_account_counts_and_the_others_are_reported(folder: Path) -> None:
    old = [account("1"), account("1", a=1), account("2")]
    new = [account("2", a=1), account("1"), account("1", a=2), account("3"), account("3"), account("2")]
    code, counts = delta(old, new)
    assert (code, counts) == (
        1,
        {"unchanged": 1, "changed": 1, "new": 1, "repeated": 3, "repeated_in_old": 1, "repeated_in_new": 3},
    )
    assert part("repeated") == [account("1", a=2), account("3"), account("2")]


def test_the_order_of_books_makes_no_difference(folder: Path) -> None:
    chance = Random(1)
    old = {f"{number}": account(f"{number}", a=0) for number in range(300)}
    new = {
        number: it | {"a": chance.choice([0, 0, 0, 1])} for number, it in old.items() if chance.random() < 0.9
    }
    new |= {f"{number}": account(f"{number}", a=0) for number in range(300, 330)}
    lines = sorted(
        new.values(), key=lambda it: int(it["external_account_number"]) + chance.randrange(-40, 40)
    )
    lines += chance.sample(lines, 20)
    _, counts = delta([*chance.sample([*old.values()], 5), *old.values()], lines)
    changed = {number for number, it in new.items() if it["a"]}
    assert counts == {
        "unchanged": len(new) - 30 - len(changed),
        "changed": len(changed),
        "new": 30,
        "vanished": len(old.keys() - new.keys()),
        "repeated": 20,
        "repeated_in_new": 20,
        "repeated_in_old": 5,
    }
    for name, numbers in (
        ("changed", changed),
        ("vanished", old.keys() - new.keys()),
        ("new", new.keys() - old.keys()),
    ):
        assert {it["external_account_number"] for it in part(name)} == numbers


def test_lines_without_a_number_are_counted(folder: Path) -> None:
    lines: list[Any] = [account("1"), b"{", {"external_account_number": 1}]
    code, counts = delta(lines, [account("1"), b'{"external_account_number":"1","a":1,"a":2}', b"[1]"])
    assert code == 1
    assert counts == {
        **{"unchanged": 1, "repeated": 1, "repeated_in_new": 1},
        **{"unreadable_in_old": 2, "unreadable_in_new": 1},
    }


def test_a_folder_with_something_in_it_is_left_alone(folder: Path) -> None:
    delta([account("1")], [account("2")])
    result = run("old", "new")
    assert (result.exit_code, len(part("new"))) == (2, 1)
    assert result.stderr == "Error: parts is not empty. Name a new folder for the parts.\n"


@pytest.mark.parametrize(("member", "path"), [(b'{"b":1,"b":2}', "a"), (b"{", "")])
def test_a_line_that_the_service_refuses_as_json_is_a_change(folder: Path, member: bytes, path: str) -> None:
    code, counts = delta([account("1")], [b'{"external_account_number":"1","a":%s}' % member])
    assert (code, counts) == (1, {"changed": 1})
    assert part("paths")[0]["paths"] == [path]


def test_the_new_book_may_come_from_a_pipe(folder: Path) -> None:
    Path("old").write_bytes(ndjson([account("1")]))
    result = run("old", "-", input=ndjson([account("1"), account("2")]))
    assert result.exit_code == 1
    assert not Path("parts/unchanged.ndjson").exists()
    assert "1 account unchanged\n0 accounts changed\n1 account new\n" in result.output


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("none", "book", "'none' does not exist"),
        ("book", "none", "none cannot be read: No such file or directory."),
        ("/dev/null", "book", "/dev/null is not a regular file, and it may be read again."),
        ("table", "book", "table cannot be read: This looks like a CSV file."),
        ("cut", "book", "cut cannot be read: The gzip data is incomplete."),
        ("book", "cut", "cut cannot be read: The gzip data is incomplete."),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(folder: Path, old: str, new: str, says: str) -> None:
    Path("book").write_bytes(ndjson([account("1")]))
    Path("table").write_text("number;name\n1;Anna\n")
    Path("cut").write_bytes(ndjson([account("1")], compress=True)[:-6])
    result = run(old, new)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_full_disk_leaves_no_part(folder: Path) -> None:
    Path("old").write_bytes(ndjson([account("1")]))
    Path("new").write_bytes(ndjson(generate_accounts(9, supplier="S")))
    with disk_full_at(5_000):
        result = run("old", "new")
    assert (result.exit_code, result.stderr) == (2, "Error: parts/new.ndjson: File too large.\n")
    assert not any(Path("parts").iterdir())
