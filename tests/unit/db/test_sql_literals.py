"""SQL text uses states, statuses and modes of the enumerations. One module changes import states."""

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

import migration_service
from migration_service import states as vocabularies

_SOURCE = Path(migration_service.__file__).parent
_STATES = _SOURCE / "services" / "imports" / "states.py"

_MEMBERS = {
    member.value
    for vocabulary in vars(vocabularies).values()
    if isinstance(vocabulary, type) and issubclass(vocabulary, StrEnum)
    for member in vocabulary
} - {"accounts", "statements", "transactions"}  # measures of reconciliation, too
_SQL = re.compile(r"\b(SELECT|UPDATE|INSERT|DELETE|WHERE|WHEN|IN|AND|OR|IS)\b|[a-z_]+ (=|<>) '")
_CHANGES_STATE = re.compile(r"account_import_process\b[^;]*?\bSET\s+state\b", re.DOTALL)


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.AST]:
    """The syntax tree of every module of the package."""
    paths = (path for path in _SOURCE.rglob("*.py") if "alembic" not in path.parts)
    return {path: ast.parse(path.read_text()) for path in paths}


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield every string of a module, with `?` for values that an f-string inserts.

    Docstrings are left out.
    """
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped = docstrings | parts
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def _literals_in(tree: ast.AST) -> list[str]:
    return [
        found
        for text in _texts(tree)
        if _SQL.search(text)
        for found in re.findall(r"'([\w-]+)'", text)
        if found in _MEMBERS
    ]


def _changes_import_state(tree: ast.AST) -> bool:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    through_model = "AccountImportProcess" in names and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "values"
        and any(keyword.arg == "state" for keyword in node.keywords)
        for node in ast.walk(tree)
    )
    return through_model or any(_CHANGES_STATE.search(text) for text in _texts(tree))


def test_no_literal_of_an_enumeration_is_in_sql_text(trees: dict[Path, ast.AST]) -> None:
    assert {path: found for path, tree in trees.items() if (found := _literals_in(tree))} == {}


def test_one_module_changes_import_states(trees: dict[Path, ast.AST]) -> None:
    assert [path for path, tree in trees.items() if _changes_import_state(tree)] == [_STATES]
