"""Which tests are run for a change, and in which order."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from mutation.recording import Recording
from mutation.uses import Line, Uses

#: Seconds that the tests of one change take together, as recorded.
BUDGET = 120.0
#: So many of the tests that noticed the last changes run first: the same often notices the next one, too.
_KILLERS = 5
#: Tests as quick as this do not count: hundreds of them take no longer than one request.
_QUICK = 0.005


@dataclass(frozen=True, slots=True)
class Selected:
    """The tests of a change, in the order in which they run."""

    tests: list[str]
    #: Whether the changed lines only run when they are called, not when modules are imported.
    only_called: bool
    #: Whether they run once for all tests, as the application is made.
    is_shared: bool


class Selection:
    """Selects the tests of the changes of a module. Those that noticed the changes before it run first."""

    def __init__(
        self, root: Path, module: str, recording: Recording, uses: Uses, budget: float = BUDGET
    ) -> None:
        self._root = root
        self._module = module
        self._budget = budget
        self._parse = cache(lambda path: ast.parse((root / path).read_text()))
        self._tree = self._parse(module)
        self._recording = recording
        self._uses = uses
        #: The last ones first.
        self._killers: list[str] = []

    def noticed(self, test: str) -> None:
        """Remember a test that noticed a change."""
        self._killers = [test, *(it for it in self._killers if it != test)][:_KILLERS]

    def tests_for(self, line: int, what: str = "") -> Selected:
        """Return the tests that run a line of the module, or use what it sets. `what` is the change."""
        body = statement_lines(self._tree, line)
        lines = {(self._module, it) for it in body} or self._users(line)
        found = self._tests_of(lines)
        is_shared = self._recording.is_shared(lines)
        if not found or is_shared:
            found |= self._recording.tests_of_module(self._module)
        if is_shared or not lines:
            # What runs once for all tests is recorded for none of them. These probably read what it makes.
            found |= self._named_for(self._uses.importers(self._module) | self._uses.imports(self._module))
        if not body:
            # A test of a constant may only read it.
            found |= {it for it in self._recording.tests_of_module(self._module) if self._is_near(it)}
        if not found:
            for importer in self._uses.importers(self._module):
                found |= self._recording.tests_of_module(importer)
        only_called = bool(body) and not self._recording.runs_on_import(lines)
        around = set[Line]().union(*(self._around(*it) for it in lines))
        ways = {test: frozenset(way) for test, way in self._recording.lines_by_test(around).items()}
        return Selected(self._in_turn(found, ways, what), only_called, is_shared)

    def _tests_of(self, lines: set[Line]) -> set[str]:
        """Return the tests that run one of these lines.

        If a module has changed since they were recorded, all its lines count as run by each of its tests.
        """
        changed = {module for module, _ in lines if not self._recording.is_of(self._root, module)}
        found = self._recording.tests_of(it for it in lines if it[0] not in changed)
        return found.union(*map(self._recording.tests_of_module, changed))

    def _around(self, module: str, line: int) -> set[Line]:
        """Return the lines of the innermost function that has `line`, or nothing."""
        functions = [
            it
            for it in ast.walk(self._parse(module))
            if isinstance(it, ast.FunctionDef) and it.lineno <= line <= (it.end_lineno or 0)
        ]
        function = max(functions, key=lambda it: it.lineno, default=None)
        last = function.end_lineno if function else None
        return {(module, it) for it in range(function.lineno, last + 1)} if function and last else set()

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

    def _named_for(self, modules: set[str]) -> set[str]:
        """Return the tests in the files of the tests of these modules, and of this one."""
        names = {f"test_{PurePath(it).stem}" for it in (self._module, *modules)}
        tests = self._recording.known.seconds
        return {it for it in tests if PurePath(_file_of(it)).stem in names}

    def _is_near(self, test: str) -> bool:
        """Return True if a test is in the file of the tests of the module, or of what it is a part of.

        The tests of `description` are also those of `description_headers`, and those of `counts` are also
        those of `counts_sql`, which has its statements.
        """
        return f"test_{PurePath(self._module).stem}_".startswith(f"{PurePath(_file_of(test)).stem}_")

    def _in_turn(self, found: set[str], ways: Mapping[str, frozenset[Line]], what: str) -> list[str]:
        """Return the tests: the last that noticed something, and those that mention most of what was changed.

        Then come those in the file of the module's tests. Of them and of the others, one of each way through
        the code comes first, which is the set of lines that a test runs.
        """
        seconds = self._recording.known.seconds
        mentions = self._recording.words.mentions(what)
        worth = {it: mentions[_function_of(it)] / (0.2 + seconds[it]) for it in found}
        mentioning = sorted(found, key=lambda it: -worth[it])[:_KILLERS]
        folder = PurePath(self._module).parent.name

        def distance(test: str) -> tuple[bool, bool, float]:
            is_far = folder not in PurePath(_file_of(test)).parts
            return (not self._is_near(test), is_far, seconds[test])

        turns: dict[str, tuple[int, int, bool, int]] = {}
        taken: Counter[frozenset[Line]] = Counter()
        for test in sorted(found - set(self._recording.known.failed), key=distance):
            way = ways.get(test, frozenset[Line]())
            place = self._killers.index(test) if test in self._killers else _KILLERS
            mention = mentioning.index(test) if test in mentioning and worth[test] else _KILLERS
            turns[test] = (place, mention, not self._is_near(test), taken[way])
            taken[way] += 1
        chosen, total = [], 0.0
        for test in sorted(turns, key=lambda it: turns[it]):
            charged = seconds[test] if seconds[test] > _QUICK else 0.0
            if total + charged <= self._budget:
                chosen.append(test)
                total += charged
        return chosen


def _file_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


def _function_of(test: str) -> str:
    """Return the file and function of a test, without its parameters."""
    return test.partition("[")[0]


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
