"""Changes one thing at a time in a module and tells which changes no test notices.

    python tools/mutate.py src/migration_service/slots.py tests/unit/test_slots.py [tests ...]

For those who work on the parts where a mistake loses accounts; minutes long, and not part of `make test`.
Works on a copy of the project. Comparisons, conditions, numbers and returned values are changed, calls that
stand alone are left out, and in texts with Lua or SQL the operators.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SWAPS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}
_LUA = [
    (">=", ">"),
    ("> ", ">= "),
    ("~=", "=="),
    ("==", "~="),
    (" + ", " - "),
    (" - ", " + "),
    ("'GT', ", ""),
]
_LUA += [("not ", ""), ("'(' .. ", ""), ("HSETNX", "HSET"), ("break", "granted = granted")]

_SQL = [
    (" SKIP LOCKED", ""),
    (" AND ", " OR "),
    ("<> ", "= "),
    (" = ", " <> "),
    ("IS NULL", "IS NOT NULL"),
    ("LEFT JOIN", "JOIN"),
    ("now()", "NULL"),
]


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, what was changed, the changed source) for each single change."""
    for index, node in enumerate(ast.walk(ast.parse(source))):
        for variant in range(3):
            tree = ast.parse(source)
            changed = list(ast.walk(tree))[index]
            what = _mutate(changed, variant)
            if what:
                yield getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(tree))


def _mutate(node: ast.AST, variant: int) -> str:
    """Change the node in place; says how, or nothing where this variant does not fit."""
    before = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
    if isinstance(node, ast.Compare) and variant == 0 and type(node.ops[0]) in _SWAPS:
        node.ops[0] = _SWAPS[type(node.ops[0])]
    elif isinstance(node, ast.BoolOp) and variant == 0:
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.If | ast.IfExp) and variant == 0:
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Constant) and variant == 0 and isinstance(node.value, bool | int):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and variant == 0:
        node.value = ast.Constant(None)
    elif isinstance(node, ast.Raise) and variant == 0 and node.exc is not None:
        node.exc = ast.Name("KeyError", ast.Load())
    elif isinstance(node, ast.keyword) and variant == 0 and node.arg in ("where", "skip_locked"):
        node.value = ast.Constant(None)
    elif isinstance(node, ast.Call) and variant == 0 and _is_where(node):
        node.args = node.args[1:] or [ast.Call(ast.Name("text", ast.Load()), [ast.Constant("true")], [])]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "redis.call" in node.value:
        return ""
    else:
        return ""
    after = ast.unparse(node) if before else str(getattr(node, "arg", ""))
    return f"{before[:70]} -> {after[:70]}"


def _is_where(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "where" and len(node.args) > 1


def text_mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """The same for the operators in texts of Lua and SQL."""
    for text in re.finditer(r'"""\n((?:local |\s+(?:SELECT|WITH|INSERT|UPDATE) ).*?)"""', source, re.DOTALL):
        for old, new in _LUA if text[1].startswith("local") else _SQL:
            for place in re.finditer(re.escape(old), text[1]):
                start = text.start(1) + place.start()
                line = source.count("\n", 0, start) + 1
                changed = source[:start] + new + source[start + len(old) :]
                yield line, f"{source.splitlines()[line - 1].strip()[:70]}: {old!r} -> {new!r}", changed


def main(module: str, *tests: str) -> None:
    """Print every change that survives, and how many there were."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        ignored = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, copy, ignore=ignored)
        source = (copy / module).read_text()
        found = [*mutants(source), *text_mutants(source)]
        survivors = 0
        for line, what, changed in found:
            (copy / module).write_text(changed)
            if _passes(copy, tests):
                survivors += 1
                sys.stdout.write(f"{module}:{line}: {what}\n")
                sys.stdout.flush()
        sys.stdout.write(f"{len(found)} changes, {survivors} of them unnoticed\n")


def _passes(copy: Path, tests: tuple[str, ...]) -> bool:
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        return (
            subprocess.run(
                command, check=False, cwd=copy, env=environment, capture_output=True, timeout=120
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
