"""The floors of the coverage (`tools/coverage_floors.py`)."""

import pytest
from coverage_floors import SETTINGS, lowered, measure, package_of, raised, read_floors

_SETTINGS = (
    "[metadata]\nslots = 1\n\n[coverage-floors]\n# a reason\nslots = 95\ncli = 85\n\n[other]\ncli = 2\n"
)


def report(**branches: tuple[int, int]) -> dict[str, object]:
    files = {f"src/migration_service/{name}.py": counted for name, counted in branches.items()}
    return {
        "files": {
            file: {"summary": {"covered_branches": covered, "num_branches": all_}}
            for file, (covered, all_) in files.items()
        }
    }


def test_branches_are_counted_by_package() -> None:
    assert measure(report(slots=(19, 20), cli=(0, 0), tasks=(0, 9)), {"slots": 95, "cli": 85}) == {
        "slots": 95.0,
        "cli": 100.0,
    }


def test_a_report_without_a_package_is_refused() -> None:
    with pytest.raises(KeyError, match="no file of cli"):
        measure(report(slots=(19, 20)), {"slots": 95, "cli": 85})


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("src/migration_service/services/imports/states.py", "services"),
        ("/a/src/migration_service/app.py", "app"),
        ("src/migration_service_local/up/run.py", "migration_service_local"),
    ],
)
def test_a_file_belongs_to_a_package(file: str, package: str) -> None:
    assert package_of(file) == package


def test_floors_rise_to_whole_per_cents_and_never_sink() -> None:
    text = raised(_SETTINGS, {"slots": 97.9, "cli": 12.0})
    assert text == _SETTINGS.replace("slots = 95", "slots = 97")


def test_a_floor_that_is_lower_than_the_committed_one_or_gone_is_named() -> None:
    assert lowered(_SETTINGS, _SETTINGS) == []
    assert lowered(_SETTINGS.replace("= 85", "= 84"), _SETTINGS) == ["cli"]
    assert lowered("[metadata]\n", _SETTINGS) == ["slots", "cli"]
    assert lowered(_SETTINGS, "[metadata]\n") == []


@pytest.mark.parametrize(
    ("package", "least"),
    [
        *((name, 95) for name in ("services", "tasks", "blueprints")),
        *(("cli", 85), ("migration_service_local", 75)),
    ],
)
def test_no_floor_is_lower_than_was_agreed(package: str, least: int) -> None:
    assert read_floors(SETTINGS.read_text())[package] >= least
