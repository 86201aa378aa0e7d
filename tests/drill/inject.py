"""Runs the drill on services with a known bug each. A drill that does not find the bug proves nothing.

Each bug is a replacement of text in a copy of the service. The copy is run by a drill of its own.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from drill.count import describe
from support.web_servers import ROOT

#: The files of a service: the packages, and the modules that its programs start with.
_COPIED = ("src", "wsgi.py", "celery_worker.py", "celery_monitor.py")
#: Small enough for a minute, large enough for every kind of order.
_SMALL = ("--clients", "12", "--accounts", "120", "--poisoned", "0", "--recovery", "20")
_LONGEST = 240
#: Drills, each with other accounts, within which a bug has to be found.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, and the drill that finds it (`injected_bugs.toml`)."""

    consequence: str
    promise: str
    changes: list[tuple[str, str, str]]
    arguments: Sequence[str] = ("--rounds", "0")


#: Every bug by its name in the table.
BUGS: dict[str, Bug] = {
    name: Bug(**described)
    for name, described in tomllib.loads(Path(__file__).with_name("injected_bugs.toml").read_text()).items()
}


def find_injected_bugs(names: Sequence[str], console: Console) -> bool:
    """Run the drill on the unchanged service and on one with each bug.

    Return True if all results are right.
    """
    table = Table("bug", "found", "by", "seconds", title="The drill on services with a known bug")
    right = True
    bugs: dict[str, Bug | None] = {"none: the service as it is": None}
    bugs |= {name: BUGS[name] for name in names or BUGS}
    for name, bug in bugs.items():
        started = time.monotonic()
        losses = _hold_drill(bug)
        for _ in range(_TRIES - 1 if bug else 0):
            losses = losses if bug and bug.promise in losses else _hold_drill(bug)
        found = bug.promise in losses if bug else bool(losses)
        right = right and found == bool(bug)
        by = "; ".join(f"{promise}: {describe(lost[:1])}" for promise, lost in losses.items())
        console.print(f"{name}: {by or 'nothing found'}")
        table.add_row(name, "yes" if found else "no", by[:110], f"{time.monotonic() - started:.0f}")
    console.print(table)
    return right


def _hold_drill(bug: Bug | None) -> dict[str, list[str]]:
    """Return the broken promises with their details."""
    with _service_with(bug) as folder:
        report = folder / "report.json"
        # The drill imports the copy, too, because its preparations have to match.
        paths = os.pathsep.join([str(folder / "src"), str(ROOT / "tests")])
        arguments = [*_SMALL, *(bug.arguments if bug else ("--rounds", "1")), "--report", str(report)]
        output = subprocess.run(
            [sys.executable, "-m", "drill", *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LONGEST,
            check=False,
        )
        if not report.exists():
            raise RuntimeError(f"The drill did not come to its end:\n{output.stdout.decode()[-5_000:]}")
        found: dict[str, list[str]] = json.loads(report.read_text())
        return found


@contextmanager
def _service_with(bug: Bug | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="drill-injected-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in _COPIED:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / part)
        for file, old, new in bug.changes if bug else ():
            path = folder / "src/migration_service" / file
            text = path.read_text()
            if text.count(old) != 1:
                raise RuntimeError(f"{file} has {text.count(old)} times, not once: {old!r}. Adapt the bug.")
            path.write_text(text.replace(old, new))
        yield folder
