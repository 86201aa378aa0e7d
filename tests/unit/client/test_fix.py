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
from click.testing import CliRunner

from documentation.pages import ROOT
from documentation.shell import blocks
from migration_payloads.schemas.json import encode_json
from migration_service_client.command import main
from unit.payloads.examples import make_account

_PAGE = ROOT / "docs/suppliers/validation.md"


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
    recipe = json.loads(Path("out.ndjson.recipe.json").read_text())
    assert recipe["recipe"] == 1
    assert all(step["about"] for step in recipe["steps"])
    assert {step["confidence"] for step in recipe["steps"]} == {"certain", "likely"}
    found = json.loads(Path("out.ndjson").read_bytes().splitlines()[1])
    assert found["ledgers"][1]["ledger_balance"] == 0.0
    assert found["customers"][0]["date_of_birth"] == "31-12-1980"


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
