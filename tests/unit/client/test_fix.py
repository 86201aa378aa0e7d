"""`migration-client fix`: what it shows, accepts, writes and keeps."""

import gzip
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from documentation.pages import ROOT
from documentation.shell import blocks
from migration_payloads.schemas.json import encode_json
from migration_service_client.command import main
from unit.payloads.examples import ELECTRICITY_EAN, make_account

_PAGE = ROOT / "docs/suppliers/validation.md"
_BORN = "customers.*.date_of_birth"


def account(number: str, **changes: Any) -> bytes:
    """A line with these changes, whose paths have `__` for a dot."""
    paths = {path.replace("__", "."): value for path, value in changes.items()}
    return encode_json(make_account({"external_account_number": number} | paths))


def dirty_book() -> list[bytes]:
    """Sound, then a date, then a telephone number behind a null, then one that nobody can correct."""
    return [
        b'{"external_account_number": "0",' + account("0").partition(b",")[2],
        account("1", customers__0__date_of_birth="31-12-1980", ledgers__1__ledger_balance="0,00"),
        b"",
        account("2", customers__0__mobile="tel. 06_12345678", billing_address3=None),
        account("3", customers__0__date_of_birth="3-4-1980"),
    ]


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "book.ndjson"
    file.write_bytes(b"\n".join(dirty_book()))
    return file


def fix(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["fix", *arguments])


def read(file: str) -> list[Any]:
    return [json.loads(line) if line else None for line in Path(file).read_bytes().splitlines()]


def steps(file: str) -> dict[tuple[str, str, str], str]:
    recipe = json.loads(Path(file).read_text())
    assert recipe["recipe"] == 1
    assert all(step["about"] for step in recipe["steps"])
    return {(it["code"], it["at"], it["kind"]): it["confidence"] for it in recipe["steps"]}


@pytest.mark.usefixtures("book")
def test_without_a_file_to_write_it_shows_what_could_be_corrected() -> None:
    result = fix("book.ndjson")
    assert result.exit_code == 1
    assert f"invalid_date at {_BORN}: date_in_iso, accepted 0 of 1 certain, 0 of 1 guess" in result.output
    assert '  line 2, ledgers.1.ledger_balance: "0,00" -> 0.00\n' in result.output
    assert "4 lines: 0 changed, 1 without errors, 3 with errors.\n" in result.output
    assert [it.name for it in Path().iterdir()] == ["book.ndjson"]
    alike = [account(str(number), ledgers__1__ledger_balance="0,00") for number in range(4)]
    Path("alike.ndjson").write_bytes(b"\n".join(alike))
    assert fix("alike.ndjson").output.count('ledgers.1.ledger_balance: "0,00"') == 3


@pytest.mark.usefixtures("book")
def test_values_of_persons_are_shown_in_a_pipe_only_if_that_is_asked_for() -> None:
    for options in ((), ("--json",)):
        hidden, shown = fix("book.ndjson", *options), fix("book.ndjson", "--show-values", *options)
        assert "customers.0.date_of_birth: (a value) -> (a value)" in hidden.output
        assert "1980" not in hidden.output
        assert "12345678" not in hidden.output
        assert "1980-12-31" in shown.output


@pytest.mark.usefixtures("book")
def test_only_what_is_accepted_changes() -> None:
    result = fix("book.ndjson", "-o", "out.ndjson", "--accept", "certain")
    assert result.exit_code == 1
    before, after = dirty_book(), Path("out.ndjson").read_bytes().splitlines()
    assert [i for i, line in enumerate(after) if line != before[i]] == [1, 3]
    found = read("out.ndjson")
    assert found[1]["customers"][0]["date_of_birth"] == "1980-12-31"
    assert "billing_address3" not in found[3]
    assert found[3]["customers"][0]["mobile"] == "tel. 06_12345678"
    assert f"invalid_date at {_BORN}: date_in_iso, accepted 1 of 1 certain, 0 of 1 guess" in result.output
    assert steps("out.ndjson.recipe.json") == {
        ("invalid", "ledgers.*.ledger_balance", "decimal_point"): "certain",
        ("invalid_date", _BORN, "date_in_iso"): "certain",
        ("null", "billing_address3", "no_value"): "certain",
    }


@pytest.mark.usefixtures("book")
def test_a_code_accepts_all_of_its_corrections() -> None:
    fix("book.ndjson", "-o", "out.ndjson", "--accept", "invalid_date")
    found = read("out.ndjson")
    assert [it and it["customers"][0]["date_of_birth"] for it in found[1:]] == [
        "1980-12-31",
        None,
        "1980-02-29",
        "1980-04-03",
    ]
    assert steps("out.ndjson.recipe.json") == {("invalid_date", _BORN, "date_in_iso"): "guess"}


@pytest.mark.usefixtures("book")
def test_when_everything_is_corrected_nothing_is_left() -> None:
    result = fix("book.ndjson", "-o", "out.ndjson", "--accept", "certain", "--accept", "guess", "--json")
    assert result.exit_code == 0
    report = json.loads(result.output)
    assert (report["lines"], report["changed"], report["failed"]) == (4, 3, 0)
    assert (report["errors"], report["warnings"]) == ({}, {})
    assert (
        fix("out.ndjson").output == "Nothing is left.\n4 lines: 0 changed, 4 without errors, 0 with errors.\n"
    )


@pytest.mark.usefixtures("book")
def test_corrections_that_meet_at_one_value_take_turns() -> None:
    """Electricity and gas have one EAN, which a ledger names, without its check digit."""
    short, meter_points = ELECTRICITY_EAN[:-1], "supply_addresses__0__meter_points__"
    eans = {f"{meter_points}{i}__ean": short for i in range(2)}
    Path("shared.ndjson").write_bytes(account("1", ledgers__0__identifiers=[short], **eans))
    fix("shared.ndjson", "-o", "out.ndjson", "--accept", "invalid_ean:ean_check_digit")
    assert fix("out.ndjson").output.startswith("Nothing is left.")
    assert Path("out.ndjson").read_text().count(ELECTRICITY_EAN) == 3


@pytest.mark.usefixtures("book")
def test_a_recipe_does_the_same_to_the_next_book_and_again() -> None:
    fix("book.ndjson", "-o", "out.ndjson", "--accept", "guess")
    Path("next.ndjson.gz").write_bytes(
        gzip.compress(b"\n".join([account("9", customers__1__date_of_birth="30.11.1955"), *dirty_book()]))
    )
    written = []
    for name in ("one.ndjson.gz", "two.ndjson.gz"):
        result = fix("next.ndjson.gz", "-o", name, "--recipe", "out.ndjson.recipe.json")
        assert result.exit_code == 0
        written.append(Path(name).read_bytes())
    assert written[0] == written[1]
    first, *rest = gzip.decompress(written[0]).splitlines()
    assert json.loads(first)["customers"][1]["date_of_birth"] == "1955-11-30"
    assert rest == Path("out.ndjson").read_bytes().splitlines()
    assert not Path("one.ndjson.gz.recipe.json").exists()


@pytest.mark.usefixtures("book")
def test_a_recipe_accepts_nothing_at_other_paths_or_of_less_confidence() -> None:
    fix("book.ndjson", "-o", "out.ndjson", "--accept", "certain")
    Path("next.ndjson").write_bytes(
        account("9", customers__0__date_of_birth="3-4-1955", statements__0__issued_date="13-05-2025")
    )
    result = fix("next.ndjson", "-o", "two.ndjson", "--recipe", "out.ndjson.recipe.json")
    assert result.exit_code == 1
    assert read("two.ndjson") == read("next.ndjson")


def test_a_terminal_is_asked_about_each_group(book: Path) -> None:
    command = [sys.executable, "-m", "migration_service_client", "fix", book.name, "-o", "out.ndjson"]
    terminal, stdin = os.openpty()
    # In the order of the code: the balance, the date, the null, the telephone number is found behind it.
    os.write(terminal, b"y\nn\ny\ny\n")
    path = os.pathsep.join(map(str, (ROOT / "clients/python/src", ROOT / "src")))
    done = subprocess.run(
        command, stdin=stdin, capture_output=True, text=True, check=False, env={"PYTHONPATH": path}
    )
    os.close(terminal)
    os.close(stdin)
    assert done.stderr == ""
    assert done.returncode == 1
    assert done.stdout.count("Accept these?") == 4
    assert set(steps("out.ndjson.recipe.json").values()) == {"certain", "likely"}
    found = read("out.ndjson")
    assert (found[1]["ledgers"][1]["ledger_balance"], found[1]["customers"][0]["date_of_birth"]) == (
        0.0,
        "31-12-1980",
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-o", "out.ndjson"], "Expected --accept or --recipe, or a terminal to ask on."),
        (["-o", "book.ndjson", "--accept", "likely"], "OUT is FILE."),
        (["--accept", "sure"], "sure is neither certain, likely or guess, nor a code that has corrections."),
        (["--accept", "invalid_date:tax_rate"], "invalid_date has no tax_rate: expected date_in_iso."),
        (["--accept", "likely", "--recipe", "book.ndjson"], "Expected --accept or --recipe, not both."),
        (["--recipe", "book.ndjson"], "book.ndjson is no recipe: Other text follows"),
        (["--recipe", "empty.json"], "empty.json is no recipe: Expected an object with the members"),
        (["--recipe", "later.json"], "later.json is no recipe: Expected a recipe of version 1."),
        (
            ["--recipe", "step.json"],
            "step.json is no recipe: Step 1 lacks one of code, at, kind, confidence.",
        ),
        (["--recipe", "kind.json"], "kind.json is no recipe: Step 1 has the kind 'x', which this version"),
        (
            ["--recipe", "sure.json"],
            "sure.json is no recipe: Step 1: expected the confidence certain, likely",
        ),
        (["--time-zone", "Mars"], "Mars is not a time zone"),
        (["-o", "none/out.ndjson", "--accept", "likely"], "No such file or directory."),
    ],
)
@pytest.mark.usefixtures("book")
def test_what_keeps_it_from_running_is_one_sentence(arguments: list[str], says: str) -> None:
    step = {"code": "a", "at": "b", "kind": "x", "confidence": "certain"}
    files: dict[str, Any] = {
        "empty": {},
        "later": {"recipe": 2, "steps": []},
        "step": {"recipe": 1, "steps": [{"code": "a"}]},
        "kind": {"recipe": 1, "steps": [step]},
        "sure": {"recipe": 1, "steps": [step | {"kind": "date_in_iso", "confidence": "sure"}]},
    }
    for name, value in files.items():
        Path(f"{name}.json").write_text(json.dumps(value))
    result = fix("book.ndjson", *arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())
    assert not Path("out.ndjson").exists()


@pytest.mark.usefixtures("book")
def test_a_book_that_ends_early_leaves_nothing_behind() -> None:
    Path("cut.ndjson.gz").write_bytes(gzip.compress(b"\n".join(dirty_book()))[:-20])
    result = fix("cut.ndjson.gz", "-o", "out.ndjson", "--accept", "likely")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cut.ndjson.gz cannot be read: The gzip data is incomplete." in result.stderr
    assert sorted(it.name for it in Path().iterdir()) == ["book.ndjson", "cut.ndjson.gz"]


@pytest.mark.usefixtures("book")
def test_a_line_that_is_no_json_is_left_as_it_is_and_counted() -> None:
    Path("odd.ndjson").write_bytes(account("1", billing_address3=None) + b"\n{no json\n[1]\n")
    result = fix("odd.ndjson", "-o", "out.ndjson", "--accept", "likely", "--json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert (report["lines"], report["changed"], report["failed"]) == (3, 1, 2)
    assert report["errors"] == {"parse_error": 1, "not_a_dict": 1}
    assert Path("out.ndjson").read_bytes().splitlines()[1:] == [b"{no json", b"[1]"]


@pytest.mark.usefixtures("book")
def test_only_what_a_path_leads_to_is_removed() -> None:
    line = json.loads(account("1"))
    Path("odd.ndjson").write_text(
        json.dumps(line | {'"quoted"': 1, "\u0001": 2, "a.b": 3, "": 4, "plain": 5})
    )
    result = fix("odd.ndjson", "-o", "out.ndjson", "--accept", "guess", "--show-values")
    assert "  line 1, plain: 5 -> nothing\n" in result.output
    assert "nothing -> nothing" not in result.output
    assert read("out.ndjson") == [line | {'"quoted"': 1, "\u0001": 2, "a.b": 3}]


@pytest.mark.usefixtures("book")
def test_standard_input_is_read_like_a_file() -> None:
    named = fix("book.ndjson", "-o", "named.ndjson", "--accept", "guess")
    given = b"\n".join(dirty_book())
    piped = CliRunner().invoke(main, ["fix", "-", "-o", "out.ndjson", "--accept", "guess"], input=given)
    assert (piped.exit_code, piped.output) == (0, named.output)
    assert Path("out.ndjson").read_bytes() == Path("named.ndjson").read_bytes()
    assert CliRunner().invoke(main, ["fix", "-"], input=given).output == fix("book.ndjson").output
    piped = CliRunner().invoke(main, ["fix", "-", "-o", "/dev/null", "--accept", "guess"], input=given)
    assert (piped.exit_code, piped.stdout) == (0, named.output)
    assert piped.stderr == "/dev/null is written in place, so the recipe is not kept.\n"
    assert not Path("/dev/null.recipe.json").exists()


@pytest.mark.usefixtures("book")
def test_the_commands_of_the_page_run() -> None:
    Path("next-book.ndjson.gz").write_bytes(gzip.compress(b"\n".join(dirty_book()[:3])))
    Path("book.ndjson").write_bytes(b"\n".join(dirty_book()[:4]))
    commands = [it for it in blocks(_PAGE) if "test_fix.py" in it.elsewhere]
    assert len(commands) == 3
    for block in commands:
        program, *words = shlex.split(block.text)
        assert program == "migration-client"
        assert CliRunner().invoke(main, words).exit_code == block.exit_status
    assert len(gzip.decompress(Path("next-fixed.ndjson.gz").read_bytes()).splitlines()) == 2
