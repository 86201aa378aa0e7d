"""`make audit` finds the locked versions that the advisories of a dump name."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import audit
import pytest


def advisory(name: str, *events: dict[str, str], **others: Any) -> dict[str, Any]:
    affected = {
        "package": {"ecosystem": others.pop("ecosystem", "PyPI"), "name": name},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
        "versions": others.pop("versions", []),
    }
    return {"id": "GHSA-1", "summary": "It breaks.", "affected": [affected], **others}


@pytest.mark.parametrize(
    ("version", "events", "expected"),
    [
        ("1.9", [{"introduced": "0"}, {"fixed": "2.0"}], True),
        ("2.0", [{"introduced": "0"}, {"fixed": "2.0"}], False),
        ("1.10", [{"introduced": "1.9"}, {"last_affected": "1.10"}], True),
        ("1.11", [{"introduced": "1.9"}, {"last_affected": "1.10"}], False),
        ("1.8", [{"introduced": "1.9"}], False),
        ("3.1", [{"introduced": "0"}, {"fixed": "2.0"}, {"introduced": "3.0"}, {"fixed": "3.2"}], True),
        ("2.5", [{"introduced": "3.0"}, {"fixed": "3.2"}, {"introduced": "0"}, {"fixed": "2.0"}], False),
    ],
)
def test_ranges_of_versions_are_compared(version: str, events: list[dict[str, str]], expected: bool) -> None:
    assert bool(audit.find({("flask", version)}, iter([advisory("Flask", *events)]))) is expected


def test_listed_versions_count_and_other_ecosystems_and_withdrawn_advisories_do_not() -> None:
    locked = {("flask", "1.0")}
    assert audit.find(locked, iter([advisory("flask", versions=["1.0"])]))
    everything = {"introduced": "0"}
    assert not audit.find(locked, iter([advisory("flask", everything, ecosystem="npm")]))
    assert not audit.find(locked, iter([advisory("flask", everything, withdrawn="2026-01-01T00:00:00Z")]))
    assert not audit.find(locked, iter([advisory("flask-cors", everything)]))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    tool = Path(audit.__file__)
    return subprocess.run(
        [sys.executable, str(tool), *arguments], capture_output=True, text=True, check=False
    )


def test_folder_and_zip_file_and_the_exit_statuses(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(advisory("no-such-package", {"introduced": "0"})))
    clean = run(str(folder))
    assert (clean.returncode, clean.stderr) == (0, "")
    assert "0 advisories" in clean.stdout
    (folder / "two.json").write_text(json.dumps(advisory("celery", {"introduced": "0"}, {"fixed": "99"})))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    for place in (folder, tmp_path / "all.zip"):
        found = run(str(place))
        assert found.returncode == 1
        assert "celery 5.6" in found.stdout
        assert "fixed in 99" in found.stdout


@pytest.mark.parametrize("place", [[], ["/nonexistent"], [str(Path(__file__).parent / "rules")], [__file__]])
def test_without_a_database_it_reports_that_nothing_was_checked(place: list[str]) -> None:
    done = run(*place)
    assert done.returncode == 2
    assert "Nothing was checked" in done.stderr
