"""The changes that `tools/mutate.py` makes."""

import ast
import gc
import sys
import time
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from coverage import CoverageData
from mutate import PACKAGE, ROOT, harmless_changes, mutants, name_of
from mutation.children import Ended, Outcome, Report, run_in_child
from mutation.known import KNOWN, apply
from mutation.patches import LiveModule, functions_by_file, make_patch
from mutation.recording import Recording, digest
from mutation.results import Result, Results, key_of, table
from mutation.selection import BUDGET, Selection, statement_lines
from mutation.signatures import Signatures
from mutation.uses import Uses
from mutation.words import Words


def changes(source: str) -> set[str]:
    return {what for _, what, _ in mutants(dedent(source))}


def sql(statement: str) -> set[str]:
    """Return the statements that a change makes, each in one line."""
    source = f'X = """\n    {statement}\n"""\n'
    return {" ".join(changed[8:-4].split()) for _, _, changed in mutants(source)}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT a, b.c AS d FROM t", "SELECT NULL AS a, b.c AS d FROM t"),
        ("SELECT a, b.c AS d FROM t", "SELECT a, NULL AS d FROM t"),
        ("SELECT 1 FROM t WHERE a AND b", "SELECT 1 FROM t WHERE TRUE AND b"),
        ("SELECT 1 FROM t WHERE a AND b", "SELECT 1 FROM t WHERE a AND TRUE"),
        ("UPDATE t SET a = 1, b = 2 WHERE c", "UPDATE t SET b = 2 WHERE c"),
        ("UPDATE t SET a = 1, b = 2 WHERE c", "UPDATE t SET a = 1 WHERE c"),
        ("INSERT INTO t (a, b) SELECT x, y FROM s", "INSERT INTO t (a, b) SELECT x, NULL AS y FROM s"),
        ("SELECT 1 FROM t FOR UPDATE OF t SKIP LOCKED", "SELECT 1 FROM t"),
        ("SELECT 1 FROM t FOR UPDATE OF t SKIP LOCKED", "SELECT 1 FROM t FOR UPDATE OF t"),
        ("SELECT 1 FROM t ORDER BY a", "SELECT 1 FROM t"),
        ("SELECT 1 FROM a LEFT JOIN b ON a.x = b.x", "SELECT 1 FROM a LEFT JOIN b ON TRUE"),
    ],
)
def test_a_part_of_a_statement_is_left_out(statement: str, expected: str) -> None:
    assert expected in sql(statement)


def test_the_sign_of_an_assignment_is_not_a_comparison() -> None:
    assert "UPDATE t SET a <> 1 WHERE b = 2" not in sql("UPDATE t SET a = 1 WHERE b = 2")
    assert "UPDATE t SET a = 1 WHERE b <> 2" in sql("UPDATE t SET a = 1 WHERE b = 2")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("update(T).values(a=1, b=c)", "x = update(T).values(b=c)"),
        ("update(T).values(a=1, b=c)", "x = update(T).values(a=1)"),
        ("select(T).where(a, b)", "x = select(T).where(b)"),
        ("f(a, b)", "x = f(b, a)"),
        ("f(one=a, other=b)", "x = f(one=b, other=a)"),
        ("a < b", "x = a <= b"),
        ("a and b", "x = a or b"),
        ("True", "x = False"),
        ("1", "x = 2"),
        ("select(T).order_by(a)", "x = (lambda it: it)(select(T))"),
    ],
)
def test_a_part_of_an_expression_is_changed(line: str, expected: str) -> None:
    assert expected in {changed for _, _, changed in mutants(f"x = {line}")}


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring with SELECT in it."""',
        "logger.info('x %s', 1)",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "@dataclass(frozen=True, slots=True)\nclass A: ...",
        "x = min(a, b)",
        "_EXAMPLE = {'number': 1, 'names': ['a']}",
        "A_LONG_EXAMPLE: dict[str, int] = {'number': 1}",
    ],
)
def test_parts_without_a_meaning_are_not_changed(source: str) -> None:
    assert changes(source) == set()


def test_a_harmless_change_needs_a_reason() -> None:
    assert harmless_changes("# a comment\na.py: '1' -> '2'\nb.py: 'x' -> 'y'\n    a reason of both\n") == {
        "a.py: '1' -> '2'",
        "b.py: 'x' -> 'y'",
    }
    with pytest.raises(ValueError, match="no reason is given for: a"):
        harmless_changes("a.py: '1' -> '2'\n")


def test_the_harmless_changes_are_still_among_those_that_are_tried() -> None:
    listed = harmless_changes((ROOT / "tools/mutation/harmless.txt").read_text())
    modules = {PACKAGE / name.partition(": ")[0] for name in listed}
    tried = {
        name_of(module, source, line, what)
        for module in modules
        for source in [(ROOT / module).read_text()]
        for line, what, _ in mutants(source)
    }
    assert listed - tried == set()


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_mistake_can_still_be_made_and_its_tests_exist(name: str) -> None:
    known = KNOWN[name]
    source = (ROOT / PACKAGE / known.file).read_text()
    changed = apply(source, known)
    assert changed != source
    compile(changed, known.file, "exec")
    file, _, test = known.tests.partition("::")
    assert (ROOT / "tests" / file).exists()
    assert not test or f"def {test}(" in (ROOT / "tests" / file).read_text()


MODULE = dedent("""
    LIMIT = 3
    TEXT = f"at most {LIMIT}"

    def _at_least():
        return f"at least {LIMIT}"

    OTHER = _at_least()

    def is_allowed(number, most=7):
        return number < LIMIT

    class Door:
        def opens(self):
            return [is_allowed(it) for it in (1, 2)]
""")


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with the text of MODULE, whose names another module has imported."""
    module = ModuleType("a_changed_module")
    module.__file__ = str(tmp_path / "a_changed_module.py")
    exec(compile(MODULE, module.__file__, "exec"), vars(module))  # noqa: S102
    other = ModuleType("its_importer")
    vars(other).update(is_allowed=vars(module)["is_allowed"], LIMIT=vars(module)["LIMIT"])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, other.__name__, other)
    return other


def patch_with(before: str, after: str) -> None:
    """Patch the module of the fixture `live`."""
    module = sys.modules["a_changed_module"]
    patch = make_patch(MODULE, MODULE.replace(before, after), set())
    assert patch is not None
    LiveModule(module, MODULE, functions_by_file()[str(module.__file__)]).apply(patch)


def test_a_patched_function_is_changed_wherever_it_was_imported(live: ModuleType) -> None:
    assert not live.is_allowed(3)
    patch_with("number < LIMIT", "number <= LIMIT")
    assert live.is_allowed(3)


def test_a_function_is_found_after_the_garbage_collector_was_told_to_ignore_it(live: ModuleType) -> None:
    gc.freeze()
    patch_with("number < LIMIT", "number <= LIMIT")
    assert live.is_allowed(3)


def test_a_patched_constant_is_changed_with_those_that_are_made_of_it(live: ModuleType) -> None:
    patch_with("LIMIT = 3", "LIMIT = 4")
    assert live.is_allowed(3)
    assert live.LIMIT == 4
    assert vars(sys.modules["a_changed_module"])["TEXT"] == "at most 4"
    assert vars(sys.modules["a_changed_module"])["OTHER"] == "at least 4"


def test_a_method_and_what_is_in_it_are_patched(live: ModuleType) -> None:
    patch_with("in (1, 2)", "in (5,)")
    assert vars(sys.modules["a_changed_module"])["Door"]().opens() == [False]


@pytest.mark.parametrize(
    ("before", "after"),
    [("most=7", "most=8"), ("class Door", "class Door(dict)"), ("LIMIT = 3", "LIMIT = print(3)")],
)
def test_what_is_done_on_import_cannot_be_patched(before: str, after: str) -> None:
    assert make_patch(MODULE, MODULE.replace(before, after), set()) is None


def test_a_constant_that_others_use_on_import_cannot_be_patched() -> None:
    assert make_patch(MODULE, MODULE.replace("LIMIT = 3", "LIMIT = 4"), {"LIMIT"}) is None


def test_the_lines_of_a_statement_are_those_without_the_statements_in_it() -> None:
    tree = ast.parse(
        "A = 1\ndef f(x):\n    if (x and\n            A):\n        return (x,\n            A)\n    return A\n"
    )
    assert [list(statement_lines(tree, line)) for line in range(1, 8)] == [
        [],
        [],
        [3, 4],
        [3, 4],
        [5, 6],
        [5, 6],
        [7],
    ]


def test_the_users_of_a_constant_are_found_through_other_modules(tmp_path: Path) -> None:
    package = tmp_path / "src" / "product"
    package.mkdir(parents=True)
    (package / "sql.py").write_text("ID = 'id'\nALL = f'SELECT {ID}'\n")
    (package / "reading.py").write_text(
        "from product.sql import ALL\n\ndef read(c):\n    return c.run(ALL)\n"
    )
    (package / "view.py").write_text(
        "from product import sql\n\nX = sql.ALL\n\ndef show():\n    return sql.ID\n"
    )
    uses = Uses(tmp_path, Path("src/product"))
    assert uses.lines_with(("src/product/sql.py", "ID")) == {
        ("src/product/reading.py", 4),
        ("src/product/view.py", 6),
    }
    assert uses.used_on_import("src/product/sql.py") == {"ALL"}
    assert uses.importers("src/product/sql.py") == {"src/product/reading.py", "src/product/view.py"}


def test_the_tests_of_a_line_run_in_the_order_in_which_they_probably_notice_its_change(
    tmp_path: Path,
) -> None:
    module = "src/product/doors/handles.py"
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text("SIZE = 1\ndef f(x):\n    if x:\n        return SIZE\n    return 2\n")
    seconds = {
        "tests/unit/test_far.py::test_quick": 0.1,
        "tests/unit/test_far.py::test_of_another_line": 0.1,
        "tests/unit/doors/test_hinges.py::test_slow": 3.0,
        "tests/unit/test_handles.py::test_slow": 5.0,
        "tests/unit/test_far.py::test_failed": 0.1,
        "tests/unit/test_far.py::test_endless": BUDGET,
    }
    recording = Recording(tmp_path, tmp_path)
    recording.known.seconds = seconds
    recording.known.failed = ["tests/unit/test_far.py::test_failed"]
    recording.known.modules = {module: digest(tmp_path / module)}
    data = CoverageData(str(recording.lines))
    for test in seconds:
        data.set_context(test)
        data.add_lines({module: [3, 5] if "another" in test else [3, 4]})
    data.write()
    selection = Selection(tmp_path, module, recording, Uses(tmp_path, Path("src/product")))
    quick, _, slow, own, *_ = seconds
    assert selection.tests_for(4).tests == selection.tests_for(1).tests == [own, slow, quick]
    selection.noticed(quick)
    assert selection.tests_for(4).tests == [quick, own, slow]
    hurried = Selection(tmp_path, module, recording, Uses(tmp_path, Path("src/product")), 5.0)
    assert hurried.tests_for(4).tests == [own]


def test_a_line_that_runs_once_for_all_tests_has_those_named_for_its_module_and_its_neighbours(
    tmp_path: Path,
) -> None:
    product = tmp_path / "src/product"
    product.mkdir(parents=True)
    (product / "unit.py").write_text("UNIT = 1\n")
    (product / "size.py").write_text("from product.unit import UNIT\n\ndef size():\n    return UNIT\n")
    (product / "page.py").write_text("from product.size import size\n")
    named = [f"tests/test_{it}.py::test_{it}" for it in ("page", "size", "unit")]
    recording = Recording(tmp_path, tmp_path)
    recording.known.seconds = dict.fromkeys([*named, "tests/test_other.py::test_other"], 0.1)
    data = CoverageData(str(recording.lines))
    data.set_context("shared")
    data.add_lines({"src/product/size.py": [4]})
    data.write()
    uses = Uses(tmp_path, Path("src/product"))
    selection = Selection(tmp_path, "src/product/size.py", recording, uses)
    assert selection.tests_for(4).is_shared
    assert sorted(selection.tests_for(4).tests) == sorted(selection.tests_for(1).tests) == named


def test_a_constant_of_a_module_that_has_changed_has_the_tests_of_its_users(tmp_path: Path) -> None:
    product = tmp_path / "src/product"
    product.mkdir(parents=True)
    (product / "sql.py").write_text("ALL = 'SELECT 1'\n")
    (product / "reading.py").write_text(
        "from product.sql import ALL\n\ndef read():\n    return ALL\n\ndef f():\n    return 1\n"
    )
    read, other, first = (f"tests/test_{it}.py::test_it" for it in ("reading", "other", "first_import"))
    recording = Recording(tmp_path, tmp_path)
    recording.known.seconds = dict.fromkeys([read, other, first], 0.1)
    data = CoverageData(str(recording.lines))
    for test, lines in (
        (read, {"src/product/reading.py": [4]}),
        (other, {"src/product/reading.py": [7]}),
        (first, {"src/product/sql.py": [1]}),
    ):
        data.set_context(test)
        data.add_lines(lines)
    data.write()
    uses = Uses(tmp_path, Path("src/product"))
    selection = Selection(tmp_path, "src/product/sql.py", recording, uses)
    assert sorted(selection.tests_for(1).tests) == sorted([read, other])
    recording.known.modules["src/product/reading.py"] = digest(product / "reading.py")
    assert selection.tests_for(1).tests == [read]


def test_a_test_that_mentions_what_was_changed_runs_first(tmp_path: Path) -> None:
    (tmp_path / "test_doors.py").write_text(
        "def test_size(door):\n    assert door.size == 1\n\ndef test_colour(door):\n    assert door.colour\n"
    )
    words = Words(tmp_path, ["test_doors.py"])
    assert words.mentions("SET colour = 'red'").most_common(1)[0][0] == "test_doors.py::test_colour"
    assert words.mentions("SET other = NULL") == {}


def test_arguments_of_different_types_are_not_swapped(tmp_path: Path) -> None:
    (tmp_path / "doors.py").write_text(
        "def open_door(session: Session, name: str, number: int | None, size: float) -> None: ...\n"
        "class Door:\n    name: str\n    colour: str\n"
    )
    signatures = Signatures(tmp_path)
    assert [signatures.differ("open_door", place) for place in range(3)] == [True, True, False]
    assert not signatures.differ("Door", 0)
    assert not signatures.differ("unknown", 0)
    assert signatures.differ("execute", 0)


def test_a_child_that_ends_by_itself_has_noticed_the_change_and_one_that_hangs_is_killed(
    tmp_path: Path,
) -> None:
    def fall(report: Report) -> None:
        report.begin("a test")
        raise RuntimeError("this is printed")

    def hang(report: Report) -> None:
        report.begin("a test")
        time.sleep(600)

    log = tmp_path / "log"
    assert run_in_child(lambda report: report.end(Outcome.SURVIVED), lambda _: 60, log) == Ended(
        Outcome.SURVIVED, ""
    )
    assert run_in_child(fall, lambda _: 60, log) == Ended(Outcome.KILLED, "a test")
    assert "this is printed" in log.read_text()
    assert run_in_child(lambda _: None, lambda _: 60, log) == Ended(Outcome.NOT_TRIED, "")
    assert run_in_child(hang, lambda test: 0.01 if test else 60, log) == Ended(Outcome.TIMED_OUT, "a test")


def test_a_change_is_the_same_after_another_function_was_edited() -> None:
    before, changed = "def f():\n    return {}\n\ndef g():\n    return 7\n", "return 2"
    keys = {
        key_of(source, source.replace("return 1", changed))
        for source in (before.format(1), "LIMIT = 5\n" + before.format("1  # a comment"))
    }
    assert len(keys) == 1
    assert key_of(before.format(1), before.format(3)) not in keys


def test_the_last_result_of_a_change_is_kept(tmp_path: Path) -> None:
    module = PACKAGE / "slots.py"
    survived = Result("1234", 3, "'1' -> '2'", Outcome.SURVIVED, "a test")
    killed = Result("1234", 3, "'1' -> '2'", Outcome.KILLED, "another")
    Results(tmp_path).add(module, survived)
    Results(tmp_path).add(module, killed)
    assert Results(tmp_path).of(module) == {killed.key: killed}
    assert list(table([("slots.py", 2, [killed], 0)]))[2:] == ["| `slots.py` | 2 | 1 | 1 | 0 | 0 | 0 |"]
