"""Which tests are run for a change, and in which order."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from mutation.recording import Recording
from mutation.uses import Line, Uses

#: Seconds that the tests of one change take together, as recorded.
BUDGET = 120.0


@dataclass(frozen=True, slots=True)
class Selected:
    """The tests of a change, in the order in which they run."""

    tests: list[str]
    #: Whether the changed lines only run when they are called, not when modules are imported.
    only_called: bool


class Selection:
    """Selects the tests of the changes of a module. Those that noticed other changes of it run first."""

    def __init__(self, root: Path, module: str, recording: Recording, uses: Uses) -> None:
        self._module = module
        self._tree = ast.parse((root / module).read_text())
        self._recording = recording
        self._uses = uses
        self._is_recorded = recording.is_of(root, module)
        self._killers: Counter[str] = Counter()

    def noticed(self, test: str) -> None:
        """Remember a test that noticed a change."""
        self._killers[test] += 1

    def tests_for(self, line: int) -> Selected:
        """Return the tests that run a line of the module, or use what it sets."""
        body = statement_lines(self._tree, line)
        lines = {(self._module, it) for it in body} or self._users(line)
        found = self._recording.tests_of(lines) if self._is_recorded else set()
        if not found or self._recording.is_shared(lines):
            found |= self._recording.tests_of_module(self._module)
        if not found:
            for importer in self._uses.importers(self._module):
                found |= self._recording.tests_of_module(importer)
        only_called = bool(body) and not self._recording.runs_on_import(lines)
        return Selected(self._in_turn(found), only_called)

    def _users(self, line: int) -> set[Line]:
        """Return the lines that use what a statement of the module sets, or defines."""
        users: set[Line] = set()
        for statement in self._tree.body:
            if _first_line(statement) <= line <= (statement.end_lineno or 0):
                for name in names_of(statement):
                    users |= self._uses.lines_with((self._module, name))
                for node in ast.walk(statement):
                    if isinstance(node, ast.FunctionDef) and not isinstance(statement, ast.Assign):
                        users |= {
                            (self._module, it)
                            for it in range(node.body[0].lineno, (node.end_lineno or 0) + 1)
                        }
        return users

    def _in_turn(self, found: set[str]) -> list[str]:
        seconds = self._recording.known.seconds
        failed = set(self._recording.known.failed)
        subject = PurePath(self._module)

        def turn(test: str) -> tuple[int, bool, bool, float]:
            path = PurePath(test.partition("::")[0])
            near = path.stem == f"test_{subject.stem}"
            return (-self._killers[test], not near, subject.parent.name not in path.parts, seconds[test])

        chosen, total = [], 0.0
        for test in sorted(found - failed, key=turn):
            if total + seconds[test] <= BUDGET:
                chosen.append(test)
                total += seconds[test]
        return chosen


def names_of(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module sets, or defines."""
    match statement:
        case ast.Assign(targets=targets):
            yield from (it.id for it in targets if isinstance(it, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def statement_lines(tree: ast.Module, line: int) -> range:
    """Return the lines of the statement that has `line`, without the statements in it.

    They are empty if it does not belong to the body of a function.
    """
    found: ast.stmt | None = None
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for part in function.body:
                for node in ast.walk(part):
                    if isinstance(node, ast.stmt) and _first_line(node) <= line <= (node.end_lineno or 0):
                        found = node if found is None or _is_in(node, found) else found
    if found is None:
        return range(0)
    body = getattr(found, "body", None)
    last = body[0].lineno - 1 if body else found.end_lineno
    return range(_first_line(found), max(last or 0, line) + 1)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(it.lineno for it in decorators)])


def _is_in(inner: ast.stmt, outer: ast.stmt) -> bool:
    return _first_line(inner) >= _first_line(outer) and (inner.end_lineno or 0) <= (outer.end_lineno or 0)
