"""Change one thing at a time in a module, and tell which changes no test notices.

    python tools/mutate.py src/migration_service/slots.py [modules and folders ...]
    python tools/mutate.py --changed main~20
    python tools/mutate.py src/migration_service --seconds 10 --new    quickly through everything
    python tools/mutate.py src/migration_service --table               what is known of all modules
    python tools/mutate.py --known                                     the mistakes of mutation/known.py

It exits with 1 if a change is not noticed that mutation/harmless.txt does not explain. It is not part of
`make test`. The first time it takes some minutes to record which lines each test runs, and later only records
tests that are new or changed. A change is tried with the tests that run its line, in a forked process
(mutation/slot.py). The results are kept in .make/mutation: the next run goes on where this one was stopped,
and tries what survived again.

docs/contributors/tests.md has the results, and why no tool at hand does this.
"""

import argparse
import ast
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from zlib import crc32

from mutation.children import Ended, Outcome
from mutation.known import KNOWN, apply
from mutation.patches import Patch, make_patch
from mutation.python import python_mutants
from mutation.recording import Recording, digest
from mutation.results import Result, Results, key_of, table
from mutation.selection import BUDGET, Selection
from mutation.signatures import Signatures
from mutation.slot import FOLDERS, Slot, copy_project
from mutation.sql import Mutant, text_mutants
from mutation.uses import Uses

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/migration_service")
_HARMLESS = Path(__file__).with_name("mutation") / "harmless.txt"
_KEPT = ROOT / ".make" / "mutation"
#: After so many changes, the tests that have noticed them are run without a change.
_CHECKED_AFTER = 25


def mutants(source: str) -> list[Mutant]:
    """Return every change of a module once."""
    found = {it[2]: it for it in text_mutants(source) if _is_python(it[2])}
    found |= {it[2]: it for it in python_mutants(source, _signatures())}
    return sorted(found.values())


@cache
def _signatures() -> Signatures:
    return Signatures(ROOT / PACKAGE)


def _is_python(text: str) -> bool:
    """Return False if a change of SQL has cut a placeholder of an f-string in two."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def modules_of(paths: Sequence[Path]) -> list[Path]:
    """Return the modules below these paths, which are relative to the root.

    Examples of the interface description are left out: another number in one is as good as the old one.
    """
    found = [it for path in paths for it in (sorted((ROOT / path).rglob("*.py")) or [ROOT / path])]
    names = ("__init__.py", "examples.py")
    return [it.relative_to(ROOT) for it in dict.fromkeys(found) if not it.name.endswith(names)]


class Mutation:
    """The changes of modules, tried in one slot."""

    def __init__(self, slot: Slot, recording: Recording, results: Results, seconds: float) -> None:
        self._slot = slot
        self._recording = recording
        self._results = results
        self._seconds = seconds
        self._uses = Uses(ROOT, PACKAGE)
        #: Tests that have passed without a change.
        self._checked: set[str] = set()

    def try_all(self, module: Path, wanted: Callable[[Mutant], bool], *, new: bool = False) -> None:
        """Try the wanted changes that were neither noticed nor explained yet, and print what survives.

        With `new`, what survived or timed out before is left out. If a test that noticed a change fails
        without one, the results since the last check are not kept.
        """
        source = (ROOT / module).read_text()
        selection = Selection(ROOT, str(module), self._recording, self._uses, self._seconds)
        known = self._results.of(module)
        harmless = harmless_changes(_HARMLESS.read_text())

        def is_left(mutant: Mutant) -> bool:
            result = known.get(key_of(source, mutant[2]))
            if result is None:
                return True
            name = name_of(module, source, mutant[0], mutant[1])
            return not new and result.outcome != Outcome.KILLED and name not in harmless

        left = [it for it in mutants(source) if wanted(it) and is_left(it)]
        for start in range(0, len(left), _CHECKED_AFTER):
            tried = []
            for mutant in left[start : start + _CHECKED_AFTER]:
                line, what, changed = mutant
                key = key_of(source, changed)
                ended = self._attempt(selection, module, source, mutant, key in known)
                tried.append(Result(key, line, what, ended.outcome, ended.test))
                if ended.outcome == Outcome.SURVIVED:
                    print(f"{module}:{line}: {what}", flush=True)
            if self._holds(module, source, tried):
                for result in tried:
                    self._results.add(module, result)

    def _holds(self, module: Path, source: str, tried: Sequence[Result]) -> bool:
        """Return whether the tests that noticed these changes pass without a change.

        Otherwise say which one fails. It is used no more if it fails again.
        """
        tests = list(dict.fromkeys(it.test for it in tried if it.outcome == Outcome.KILLED and it.test))
        # At least one, in case that the servers are no longer what they were.
        tests = [it for it in tests if it not in self._checked] or tests[-1:]
        for _ in range(2):
            ended = self._slot.patched(str(module), Patch(source, ()), tests)
            if ended.outcome == Outcome.SURVIVED:
                self._checked.update(tests)
                return True
            print(
                f"{module}: {ended.test} {ended.outcome} without any change:\n{self._slot.output()}",
                flush=True,
            )
        self._recording.known.failed.append(ended.test)
        return False

    def _attempt(self, selection: Selection, module: Path, source: str, mutant: Mutant, again: bool) -> Ended:
        line, what, changed = mutant
        selected = selection.tests_for(line, f"{what} {source.splitlines()[line - 1]}")
        if not selected.tests:
            return Ended(Outcome.SURVIVED, "no test runs it")
        patch = make_patch(source, changed, self._uses.used_on_import(str(module)))

        def run(tests: Sequence[str]) -> Ended:
            ended = Ended(Outcome.NOT_TRIED, "")
            if patch and (selected.only_called or patch.constants):
                ended = self._slot.patched(str(module), patch, tests, anew=again or selected.is_shared)
            if ended.outcome == Outcome.NOT_TRIED:
                ended = self._slot.imported(str(module), changed, tests)
            return ended

        ended = run(selected.tests)
        if ended.outcome == Outcome.TIMED_OUT and ended.test:
            # On a machine with other work, the test may only have been slow.
            without = self._slot.patched(str(module), Patch(source, ()), [ended.test])
            if without.outcome == Outcome.SURVIVED and run([ended.test]).outcome != Outcome.SURVIVED:
                ended = Ended(Outcome.KILLED, ended.test)
        if ended.outcome == Outcome.NOT_TRIED:
            raise SystemExit(f"{module}:{line}: its tests did not run:\n{self._slot.output()}")
        if ended.outcome != Outcome.SURVIVED and ended.test:
            selection.noticed(ended.test)
        return ended


def changed_since(revision: str) -> list[Path]:
    """Return the modules of the package that were changed since a revision."""
    command = ["git", "diff", "--name-only", "--diff-filter=AM", f"{revision}...", "--", f"{PACKAGE}/"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [Path(it) for it in listed if it.endswith(".py") and "alembic" not in it and "__init__" not in it]


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


def find_tests(folders: Sequence[str]) -> list[Path]:
    """Return the files of the tests in these folders. A file may be among them."""
    found = [sorted((ROOT / it).rglob("test_*.py")) or [ROOT / it] for it in folders]
    return [path for paths in found for path in paths]


def try_known(slot: Slot) -> None:
    """Try each known mistake with its tests. Raise SystemExit if one is not noticed."""
    any_module = PACKAGE / "slots.py"
    tests = sorted({f"tests/{known.tests}" for known in KNOWN.values()})
    ended = slot.imported(str(any_module), (ROOT / any_module).read_text(), tests)
    if ended.outcome != Outcome.SURVIVED:
        raise SystemExit(f"{ended.test} {ended.outcome} without any mistake:\n{slot.output()}")
    unnoticed = 0
    for name, known in KNOWN.items():
        module = PACKAGE / known.file
        changed = apply((ROOT / module).read_text(), known)
        ended = slot.imported(str(module), changed, [f"tests/{known.tests}"])
        unnoticed += ended.outcome == Outcome.SURVIVED
        print(f"{'NOT NOTICED' if ended.outcome == Outcome.SURVIVED else 'noticed'}: {name}", flush=True)
    print(f"{len(KNOWN)} known mistakes, {unnoticed} unnoticed", flush=True)
    if unnoticed:
        raise SystemExit(1)


def report(modules: Sequence[Path], results: Results) -> bool:
    """Print the table of these modules, and the names of the changes that nobody has explained.

    Return True if there are none, and all changes were tried.
    """
    harmless = harmless_changes(_HARMLESS.read_text())
    rows, fine = [], True
    unexplained: list[str] = []
    for module in modules:
        source = (ROOT / module).read_text()
        known = results.of(module)
        changes = mutants(source)
        tried = [(it, known[key]) for it in changes if (key := key_of(source, it[2])) in known]
        survived = [it for it, result in tried if result.outcome == Outcome.SURVIVED]
        names = [name_of(module, source, line, what) for line, what, _ in survived]
        unexplained += [it for it in names if it not in harmless]
        explained = sum(it in harmless for it in names)
        results_of = [it for _, it in tried]
        rows.append((str(module.relative_to(PACKAGE)), len(changes), results_of, explained))
        fine = fine and len(tried) == len(changes) and len(survived) == explained
    print("\n".join([*table(rows), "", *unexplained]), flush=True)
    return fine


def main() -> int:
    """Try changes, and print which survive. Return 1 if one of them may do harm, or if not all was tried."""
    parser = argparse.ArgumentParser(description="Tell which small changes of a module no test notices.")
    parser.add_argument(
        "modules", nargs="*", type=Path, help="for example src/migration_service/slots.py, or a folder"
    )
    parser.add_argument("--changed", metavar="REVISION", help="every module that was changed since")
    parser.add_argument("--known", action="store_true", help="the mistakes that were once not noticed")
    parser.add_argument("--lines", default="", metavar="FROM-TO", help="only changes of these lines")
    parser.add_argument(
        "--tests", action="append", metavar="FOLDER", help="record no other tests, if they are new"
    )
    parser.add_argument(
        "--seconds", type=float, default=BUDGET, help="how long the tests of one change take together"
    )
    parser.add_argument("--new", action="store_true", help="do not try again what survived before")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="only list the changes, and try none")
    parser.add_argument("--table", action="store_true", help="only print what is known of the modules")
    given = parser.parse_args()
    modules = modules_of(changed_since(given.changed) if given.changed else given.modules)
    if not modules and not given.known:
        parser.error("name modules, or a revision with --changed")
    results = Results(_KEPT / "results")
    if given.list:
        for module in modules:
            for line, what, _ in mutants((ROOT / module).read_text()):
                print(f"{module}:{line}: {what}")
        return 0
    if not given.table:
        # What it has started ends, too, instead of trying changes for nobody.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
            # The servers' account can pass through it.
            Path(folder).chmod(0o755)
            _try(Path(folder), given, modules, results)
    return 0 if given.known or report(modules, results) else 1


def _try(folder: Path, given: argparse.Namespace, modules: Sequence[Path], results: Results) -> None:
    first, _, last = given.lines.partition("-")
    lines = range(int(first or 0), int(last or 1_000_000) + 1)

    def record(slot: Slot, recording: Recording, _: int) -> None:
        slot.record(missing)

    def known(slot: Slot, recording: Recording, _: int) -> None:
        try_known(slot)

    def mutate(slot: Slot, recording: Recording, share: int) -> None:
        def is_mine(mutant: Mutant) -> bool:
            return mutant[0] in lines and crc32(mutant[2].encode()) % given.processes == share

        mutation = Mutation(slot, recording, results, given.seconds)
        for module in modules:
            mutation.try_all(module, is_mine, new=given.new)

    if given.known:
        _in_slots(folder, 1, known)
    else:
        missing = forget_changed(Recording(_KEPT, ROOT), given.tests or FOLDERS)
        if missing:
            print(f"recording the lines of {len(missing)} files of tests", flush=True)
            _in_slots(folder, 1, record)
        _in_slots(folder, given.processes, mutate)


def forget_changed(recording: Recording, folders: Sequence[str]) -> list[str]:
    """Forget the tests of files that have changed. Return those in these folders that have to be recorded."""
    everywhere = find_tests(FOLDERS)
    changed = set(recording.missing(ROOT, everywhere))
    recording.forget_all_but({str(it.relative_to(ROOT)) for it in everywhere} - changed)
    if not recording.known.files:
        recording.known.modules = {str(it): digest(ROOT / it) for it in modules_of([PACKAGE])}
    recording.save()
    return [it for it in (str(it.relative_to(ROOT)) for it in find_tests(folders)) if it in changed]


def _in_slots(folder: Path, number: int, work: Callable[[Slot, Recording, int], None]) -> None:
    """Call `work` with a slot in each of so many processes. Raise SystemExit if it fails in one."""

    def run(index: int) -> None:
        copy = folder / f"{work.__name__}-{index}"
        copy_project(ROOT, copy)
        recording = Recording(_KEPT, ROOT)
        with Slot(copy, recording) as slot:
            work(slot, recording, index)

    processes = [get_context("fork").Process(target=run, args=[index]) for index in range(number)]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
