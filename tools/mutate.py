"""Change one thing at a time in a module, and tell which changes no test notices.

    python tools/mutate.py src/migration_service/slots.py [tests ...]
    python tools/mutate.py --changed main~20

Use it for code in which a mistake loses accounts. It takes minutes to an hour for a module, and is not part
of `make test`. Each change is tried in a copy of the project, several at once. Without `tests`, those run
whose folders have the name of the module's subject (`find_tests`), the nearest ones first.

docs/contributors/tests.md has the results, and why no tool at hand does this.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from mutation.python import python_mutants
from mutation.sql import Mutant, text_mutants

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/migration_service")
#: Subjects that are also tested by the tests of others: most of `imports` is tested by processing accounts.
_ALSO = {"imports": ("processing", "batches"), "slots": ("processing", "batches"), "tasks": ("processing",)}
#: Tests of the whole service take too long for thousands of changes.
_KINDS = ("unit", "worker", "api")


@dataclass(frozen=True, slots=True)
class Tried:
    """A change, and whether a test noticed it."""

    line: int
    what: str
    noticed: bool


def find_tests(module: Path) -> list[str]:
    """Return the tests of a module below its root: first those with its name, then those of its subject."""
    parts = module.relative_to(PACKAGE).with_suffix("").parts
    subject = parts[-2] if len(parts) > 1 else parts[-1]
    own = [path for kind in _KINDS for path in sorted((ROOT / "tests" / kind).rglob(f"test_{parts[-1]}.py"))]
    subjects = [subject, *_ALSO.get(subject, ())]
    folders = [ROOT / "tests" / kind for kind in _KINDS]
    found = [
        it for name in subjects for folder in folders for it in sorted(folder.rglob(name)) if it.is_dir()
    ]
    near = [path for path in own if subject in path.parts or len(parts) == 1]
    return list(dict.fromkeys(str(path.relative_to(ROOT)) for path in [*near, *found]))


def mutants(source: str) -> list[Mutant]:
    """Return every change of a module once."""
    found = {changed: (line, what, changed) for line, what, changed in text_mutants(source)}
    found |= {changed: (line, what, changed) for line, what, changed in python_mutants(source)}
    return sorted(found.values())


class Copies:
    """Copies of the project, one for each change that is tried at the same time."""

    def __init__(self, folder: Path, number: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        ignored = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", ".hypothesis", ".make")
        for index in range(number):
            shutil.copytree(ROOT, folder / str(index), ignore=ignored, symlinks=True)
            self._free.put(folder / str(index))

    def passes(self, module: Path, source: str, tests: Sequence[str], seconds: float) -> bool:
        """Return True if the tests pass in time with this text of the module."""
        copy = self._free.get()
        before = (copy / module).read_text()
        try:
            (copy / module).write_text(source)
            return _run(copy, tests, seconds)
        finally:
            (copy / module).write_text(before)
            self._free.put(copy)


def _run(copy: Path, tests: Sequence[str], seconds: float) -> bool:
    paths = os.pathsep.join([str(copy / "src"), str(copy / "tests"), str(copy / "tools")])
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "--randomly-dont-reorganize", "-n", "0"]
    command = ["nice", sys.executable, "-m", "pytest", *options, *tests]
    process = subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            process.terminate()  # pytest stops its servers
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def try_all(
    module: Path, tests: Sequence[str], copies: Copies, processes: int, lines: range
) -> Iterator[Tried]:
    """Try every change of these lines, and yield each when it was tried."""
    source = (ROOT / module).read_text()
    started = time.monotonic()
    if not copies.passes(module, source, tests, 1_800):
        raise SystemExit(f"{module}: its tests fail without any change: {' '.join(tests)}")
    seconds = 3 * (time.monotonic() - started) + 30

    def attempt(mutant: Mutant) -> Tried:
        line, what, changed = mutant
        return Tried(line, what, not copies.passes(module, changed, tests, seconds))

    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(attempt, [mutant for mutant in mutants(source) if mutant[0] in lines])


def changed_since(revision: str) -> list[Path]:
    """Return the modules of the package that were changed since a revision."""
    command = ["git", "diff", "--name-only", "--diff-filter=AM", f"{revision}...", "--", f"{PACKAGE}/"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [Path(it) for it in listed if it.endswith(".py") and "alembic" not in it and "__init__" not in it]


def main() -> None:
    """Print every change that survives, and how many there were."""
    parser = argparse.ArgumentParser(description="Tell which small changes of a module no test notices.")
    parser.add_argument("module", nargs="?", type=Path, help="for example src/migration_service/slots.py")
    parser.add_argument("tests", nargs="*", help="the tests to run, instead of those of its subject")
    parser.add_argument("--changed", metavar="REVISION", help="every module that was changed since")
    parser.add_argument("--lines", default="", metavar="FROM-TO", help="only changes of these lines")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="only list the changes, and try none")
    given = parser.parse_args()
    modules = changed_since(given.changed) if given.changed else [given.module]
    if modules == [None]:
        parser.error("name a module, or a revision with --changed")
    if given.list:
        for line, what, _ in mutants((ROOT / modules[0]).read_text()):
            print(f"{modules[0]}:{line}: {what}")
        return
    first, _, last = given.lines.partition("-")
    lines = range(int(first or 0), int(last or 1_000_000) + 1)
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        Path(folder).chmod(0o755)
        copies = Copies(Path(folder), given.processes)
        for module in modules:
            _report(module, given.tests or find_tests(module), copies, given.processes, lines)


def _report(module: Path, tests: Sequence[str], copies: Copies, processes: int, lines: range) -> None:
    if not tests:
        print(f"{module}: no tests in folders of its subject", flush=True)
        return
    tried = survived = 0
    for one in try_all(module, tests, copies, processes, lines):
        tried += 1
        if not one.noticed:
            survived += 1
            print(f"{module}:{one.line}: {one.what}", flush=True)
    share = 100 * (tried - survived) / max(tried, 1)
    print(f"{module}: {tried} changes, {survived} unnoticed, {share:.0f} % noticed", flush=True)


if __name__ == "__main__":
    main()
