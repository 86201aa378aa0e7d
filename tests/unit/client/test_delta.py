"""`migration-client delta` splits a book, and sees through another spelling of the same."""

import json
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


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["delta", "old", "new", *arguments, "-o", "parts"])


def account(number: str, **members: Any) -> dict[str, Any]:
    return {"external_account_number": number, **members}


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
    Path("old").write_bytes(ndjson([*chance.sample([*old.values()], 5), *old.values()]))
    Path("new").write_bytes(ndjson(lines))
    counts = json.loads(run("--json", "--unchanged").output)
    changed = {number for number, it in new.items() if it["a"]}
    assert {name: number for name, number in counts.items() if number} == {
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
        part = map(json.loads, Path(f"parts/{name}.ndjson").read_bytes().splitlines())
        assert {it["external_account_number"] for it in part} == numbers


def test_a_full_disk_leaves_no_part(folder: Path) -> None:
    Path("old").write_bytes(ndjson([account("1")]))
    Path("new").write_bytes(ndjson(generate_accounts(9, supplier="S")))
    with disk_full_at(5_000):
        result = run()
    assert (result.exit_code, result.stderr) == (2, "Error: parts/new.ndjson: File too large.\n")
    assert not any(Path("parts").iterdir())
