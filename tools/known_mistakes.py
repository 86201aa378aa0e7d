"""Mistakes that all tests once passed with, each in one sentence, and the tests that notice it now.

    python tools/known_mistakes.py                     makes each of them, and runs its tests
    python tools/known_mistakes.py "team"              only those with this in their name

Each is made in a copy of the package, in which its tests run. The exit status is 1 if a mistake is not
noticed. Add a mistake that got through to known_mistakes.toml, together with the test that finds it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENT = "clients/python/src"


@dataclass(frozen=True, slots=True)
class Known:
    """A mistake: replacements of texts that occur once in a file, found from src/migration_service."""

    file: str
    changes: list[tuple[str, str]]
    #: Tests below `tests`: a file, or a test in it after `::`, or one of its pages. One of them fails.
    tests: str


#: Every mistake by its name.
KNOWN: dict[str, Known] = {
    name: Known(**described)
    for name, described in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}


def apply(source: str, known: Known) -> str:
    """Return the text of the file with the mistake. Raise ValueError if a text is not there exactly once."""
    for old, new in known.changes:
        if source.count(old) != 1:
            raise ValueError(
                f"{known.file} has {source.count(old)} times, not once: {old!r}. Adapt the mistake."
            )
        source = source.replace(old, new)
    return source


def is_noticed(known: Known) -> bool:
    """Return whether the tests of a mistake fail with it."""
    with tempfile.TemporaryDirectory() as folder:
        for sources in ("src", CLIENT):
            shutil.copytree(ROOT / sources, Path(folder) / sources)
        file = Path(folder) / "src/migration_service" / known.file
        file.write_text(apply(file.read_text(), known))
        # The option is that of setup.cfg, which comes before PYTHONPATH.
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", f"tests/{known.tests}"]
        command += ["-o", f"pythonpath=tests tools {folder}/{CLIENT}"]
        environment = os.environ | {"PYTHONPATH": f"{folder}/src"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    return done.returncode == 1


def main() -> int:
    """Try the mistakes, print a line for each, and return 1 if one is not noticed."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    unnoticed = 0
    for name, known in KNOWN.items():
        if wanted in name:
            noticed = is_noticed(known)
            unnoticed += not noticed
            print(f"{'noticed    ' if noticed else 'NOT NOTICED'} {name}", flush=True)
    print(f"{unnoticed} unnoticed")
    return min(unnoticed, 1)


if __name__ == "__main__":
    sys.exit(main())
