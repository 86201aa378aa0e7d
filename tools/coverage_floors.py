"""Compares the coverage of branches with the floors in setup.cfg, which only rise.

    python tools/coverage_floors.py build/coverage.json           exits with 1 under a floor
    python tools/coverage_floors.py build/coverage.json --raise   writes higher floors, never lower ones

The file is coverage's JSON report. `make coverage` runs this.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from configparser import ConfigParser
from math import floor
from pathlib import Path, PurePath
from typing import Any

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "setup.cfg"
SECTION = "coverage-floors"


def read_floors(settings: str) -> dict[str, int]:
    """Return the floor of each package, in per cent of its branches, from the text of setup.cfg."""
    parser = ConfigParser(interpolation=None)
    parser.read_string(settings)
    if not parser.has_section(SECTION):
        return {}
    return {name: int(value) for name, value in parser.items(SECTION)}


def measure(report: Mapping[str, Any], packages: Mapping[str, int]) -> dict[str, float]:
    """Return the per cent of branches that ran, for each package.

    A package without branches has 100. Raise KeyError if the report has no file of a package.
    """
    found: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    seen: set[str] = set()
    for file, measured in report["files"].items():
        name = package_of(file)
        seen.add(name)
        found[name] += measured["summary"]["num_branches"]
        covered[name] += measured["summary"]["covered_branches"]
    for name in packages:
        if name not in seen:
            raise KeyError(f"The report has no file of {name}: was the whole suite run?")
    return {name: 100 * covered[name] / found[name] if found[name] else 100.0 for name in packages}


def package_of(file: str) -> str:
    """Return `services` for src/migration_service/services/a.py."""
    parts = PurePath(file).with_suffix("").parts
    package, *below = parts[parts.index("src") + 1 :]
    return below[0] if package == "migration_service" else package


def raised(settings: str, measured: Mapping[str, float]) -> str:
    """Return the text of setup.cfg with floors at what was measured. None becomes lower."""
    before, head, section = settings.partition(f"[{SECTION}]\n")
    section, gap, after = section.partition("\n\n[")
    for name, low in read_floors(settings).items():
        section = re.sub(
            rf"^{name} *=.*$", f"{name} = {max(low, floor(measured[name]))}", section, flags=re.M
        )
    return before + head + section + gap + after


def lowered(settings: str, committed: str) -> list[str]:
    """Return the packages whose floor is lower than the committed one, or gone."""
    floors = read_floors(settings)
    return [name for name, low in read_floors(committed).items() if floors.get(name, 0) < low]


def main() -> int:
    """Print a line for each package, and return 1 if one is under its floor or a floor was lowered."""
    parser = argparse.ArgumentParser(description="Compare the coverage of branches with the floors.")
    parser.add_argument("report", type=Path, help="coverage's JSON report")
    parser.add_argument("--raise", dest="raising", action="store_true", help="write higher floors")
    parser.add_argument("--against", default="HEAD", help="the revision whose floors may not be lowered")
    given = parser.parse_args()
    settings = SETTINGS.read_text()
    floors = read_floors(settings)
    measured = measure(json.loads(given.report.read_text()), floors)
    failures = []
    for name, low in floors.items():
        ok = measured[name] >= low
        print(
            f"{name:<24} {measured[name]:5.1f} % of the branches, the floor is {low} %{'' if ok else '  <--'}"
        )
        if not ok:
            failures.append(
                f"{name} is under its floor: test the behaviour that no test reaches, or delete it."
            )
    command = ["git", "show", f"{given.against}:setup.cfg"]
    committed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    failures += [
        f"The floor of {name} was lowered. Floors only rise." for name in lowered(settings, committed)
    ]
    print(*failures, sep="\n", end="\n" if failures else "")
    if given.raising and not failures:
        SETTINGS.write_text(raised(settings, measured))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
