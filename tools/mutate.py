"""Change one thing at a time in a module, and tell which changes no test notices.

    python tools/mutate.py src/migration_service/slots.py [tests ...]
    python tools/mutate.py --changed main~20
    python tools/mutate.py --known          the mistakes of mutation/known.py

Use it for code in which a mistake loses accounts. It takes minutes to an hour for a module, and is not part
of `make test`. It exits with 1 if a change is not noticed that mutation/harmless.txt does not explain. Each
change is tried in a copy of the project, several at once. Without `tests`, those run
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

from mutation.known import KNOWN, apply
from mutation.python import python_mutants
from mutation.sql import Mutant, text_mutants

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/migration_service")
_HARMLESS = Path(__file__).with_name("mutation") / "harmless.txt"
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
        ignored = shutil.ignore_patterns(
            ".venv", ".git", "__pycache__", ".*_cache", ".hypothesis", ".make", "build"
        )
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


def try_known(processes: int) -> int:
    """Try each known mistake with its tests. Print those that they do not notice, and return 1 if any."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        Path(folder).chmod(0o755)
        copies = Copies(Path(folder), processes)

        def attempt(name: str) -> tuple[str, bool]:
            known = KNOWN[name]
            module = PACKAGE / known.file
            changed = apply((ROOT / module).read_text(), known)
            return name, not copies.passes(module, changed, [f"tests/{known.tests}"], 1_800)

        unnoticed = 0
        with ThreadPoolExecutor(processes) as pool:
            for name, noticed in pool.map(attempt, KNOWN):
                unnoticed += not noticed
                print(f"{'noticed' if noticed else 'NOT NOTICED'}: {name}", flush=True)
    print(f"{len(KNOWN)} known mistakes, {unnoticed} unnoticed", flush=True)
    return 1 if unnoticed else 0


def changed_since(revision: str) -> list[Path]:
    """Return the modules of the package that were changed since a revision."""
    command = ["git", "diff", "--name-only", "--diff-filter=AM", f"{revision}...", "--", f"{PACKAGE}/"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [Path(it) for it in listed if it.endswith(".py") and "alembic" not in it and "__init__" not in it]


def main() -> int:
    """Print every change that survives, and how many there were. Return 1 if one of them may do harm."""
    parser = argparse.ArgumentParser(description="Tell which small changes of a module no test notices.")
    parser.add_argument("module", nargs="?", type=Path, help="for example src/migration_service/slots.py")
    parser.add_argument("tests", nargs="*", help="the tests to run, instead of those of its subject")
    parser.add_argument("--changed", metavar="REVISION", help="every module that was changed since")
    parser.add_argument("--known", action="store_true", help="the mistakes that were once not noticed")
    parser.add_argument("--lines", default="", metavar="FROM-TO", help="only changes of these lines")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="only list the changes, and try none")
    given = parser.parse_args()
    if given.known:
        return try_known(given.processes)
    modules = changed_since(given.changed) if given.changed else [given.module]
    if modules == [None]:
        parser.error("name a module, or a revision with --changed")
    if given.list:
        for line, what, _ in mutants((ROOT / modules[0]).read_text()):
            print(f"{modules[0]}:{line}: {what}")
        return 0
    first, _, last = given.lines.partition("-")
    lines = range(int(first or 0), int(last or 1_000_000) + 1)
    status = 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        Path(folder).chmod(0o755)
        copies = Copies(Path(folder), given.processes)
        for module in modules:
            if not _report(module, given.tests or find_tests(module), copies, given.processes, lines):
                status = 1
    return status


def harmless_changes(text: str) -> set[str]:
    """Return the changes of mutation/harmless.txt by their names (`name_of`).

    The indented lines below them have the reasons. Raise ValueError if a change has no reason.
    """
    changes: list[str] = []
    unexplained: set[str] = set()
    for line in text.splitlines():
        if line.startswith((" ", "\t")):
            unexplained.clear()
        elif line and not line.startswith("#"):
            changes.append(line)
            unexplained.add(line)
    if unexplained:
        raise ValueError(f"no reason is given for: {'; '.join(sorted(unexplained))}")
    return set(changes)


def name_of(module: Path, source: str, line: int, what: str) -> str:
    """Return the name of a change, with the text of its line, because line numbers do not stay the same."""
    return f"{module.relative_to(PACKAGE)}: {source.splitlines()[line - 1].strip()}: {what}"


def _report(module: Path, tests: Sequence[str], copies: Copies, processes: int, lines: range) -> bool:
    """Print what was not noticed. Return True if that is nothing but harmless changes."""
    if not tests:
        print(f"{module}: no tests in folders of its subject", flush=True)
        return False
    harmless, source = harmless_changes(_HARMLESS.read_text()), (ROOT / module).read_text()
    tried = survived = explained = 0
    for one in try_all(module, tests, copies, processes, lines):
        tried += 1
        if one.noticed:
            continue
        survived += 1
        known = name_of(module, source, one.line, one.what) in harmless
        explained += known
        print(f"{module}:{one.line}: {one.what}{' (harmless)' if known else ''}", flush=True)
    share = 100 * (tried - survived) / max(tried, 1)
    print(
        f"{module}: {tried} changes, {survived} unnoticed ({explained} harmless), {share:.0f} % noticed",
        flush=True,
    )
    return survived == explained


if __name__ == "__main__":
    sys.exit(main())
