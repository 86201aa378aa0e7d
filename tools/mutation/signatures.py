"""Tells which swapped arguments have annotations that do not match: the type checker refuses most of them."""

import ast
from collections import defaultdict
from pathlib import Path

#: Types that count as the same: a value of one may be passed as the other.
_ALIKE = [
    {"int", "float", "bool"},
    {"Mapping", "dict"},
    {"Sequence", "Iterable", "Collection", "list", "tuple"},
]
#: Types that say too little.
_ANY = {"Any", "object", "T", ""}
#: Functions of libraries whose first argument is of another kind than the second.
_LIBRARIES = {
    "execute",
    "scalar",
    "scalars",
    "get",
    "get_one",
    "eval",
    "map",
    "partial",
    "setattr",
    "getattr",
}


class Signatures:
    """The types of the parameters of all functions below a folder, by the names of the functions."""

    def __init__(self, package: Path) -> None:
        self._types: dict[str, list[list[set[str]]]] = defaultdict(list)
        for path in sorted(package.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    parameters = [*node.args.posonlyargs, *node.args.args]
                    types = [_types(it.annotation) for it in parameters if it.arg not in ("self", "cls")]
                    self._types[node.name].append(types)
                elif isinstance(node, ast.ClassDef):
                    fields = [it for it in node.body if isinstance(it, ast.AnnAssign)]
                    self._types[node.name].append([_types(it.annotation) for it in fields])

    def differ(self, name: str, place: int) -> bool:
        """Return True if the types of the arguments at `place` and after it differ in each such function."""
        if name in _LIBRARIES and place == 0:
            return True
        known = [it[place : place + 2] for it in self._types.get(name, ())]
        return bool(known) and all(len(it) == 2 and not _is_same(*it) for it in known)


def _types(annotation: ast.expr | None) -> set[str]:
    """Return the names of the types of an annotation, without their parameters and without None."""
    match annotation:
        case ast.BinOp(left=left, right=right):
            return _types(left) | _types(right)
        case ast.Subscript(value=value):
            return _types(value)
        case ast.Constant(value=None):
            return set()
    return {ast.unparse(annotation).rpartition(".")[2] if annotation else ""}


def _is_same(one: set[str], other: set[str]) -> bool:
    alike = any(one & types and other & types for types in _ALIKE)
    return bool(one & other or alike or (one | other) & _ANY)
