"""The changes that `tools/mutate.py` makes."""

from textwrap import dedent

import pytest
from mutate import PACKAGE, ROOT, find_tests, harmless_changes, mutants, name_of
from mutation.known import KNOWN, apply


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
    ],
)
def test_parts_without_a_meaning_are_not_changed(source: str) -> None:
    assert changes(source) == set()


def test_the_tests_of_a_module_are_those_of_its_subject_the_nearest_first() -> None:
    assert find_tests(PACKAGE / "services/processing/attempts.py") == [
        "tests/worker/processing/test_attempts.py",
        "tests/worker/processing",
        "tests/api/processing",
    ]
    assert find_tests(PACKAGE / "slots.py")[0] == "tests/unit/test_slots.py"


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
