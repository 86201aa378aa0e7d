"""Changes of Python, one at a time: conditions, numbers, arguments, keywords, and calls without a result."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import Any

from mutation.signatures import Signatures
from mutation.sql import Mutant

_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
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
#: Methods of a statement that can be left out of its chain.
_LINKS = {"order_by", "limit", "with_for_update", "distinct", "join", "on_conflict_do_nothing", "returning"}
#: Functions for which the order of the arguments does not matter.
_SYMMETRIC = {"min", "max", "and_", "or_", "isinstance", "zip", "gather"}
#: Parts of a module in which a change means nothing, because only people or the type checker read them.
_SILENT_CALLS = {"TypeVar", "dataclass", "shared_task", "getLogger"}


def python_mutants(source: str, signatures: Signatures | None = None) -> Iterator[Mutant]:
    """Yield each single change of the Python of a module, without those that `signatures` excludes."""
    tree = ast.parse(source)
    ignored = _ignored(tree)
    texts = [ast.unparse(statement) for statement in tree.body]
    places = {id(node): place for place, statement in enumerate(tree.body) for node in ast.walk(statement)}
    for node in ast.walk(tree):
        if id(node) in ignored or _is_parameters(node, source):
            continue
        for change in _changes(node, signatures):
            place, before = places[id(node)], _text(node)
            with _kept(node):
                change(node)
                after = _text(node)
                # Only this statement: to write the others again, too, would take most of the time.
                text = ast.unparse(tree.body[place])
            if before != after:
                changed = "\n".join([*texts[:place], text, *texts[place + 1 :]])
                yield getattr(node, "lineno", 0), _short(before, after), changed


@contextmanager
def _kept(node: ast.AST) -> Iterator[None]:
    """Let a node be changed, and afterwards put back what it was."""
    kept = node.__dict__
    node.__dict__ = deepcopy(kept)
    try:
        yield
    finally:
        node.__dict__ = kept


def _is_parameters(node: ast.AST, source: str) -> bool:
    """Return True if a dict has the parameters of a statement. Without one of them every test fails."""
    names = (
        [it.value for it in node.keys if isinstance(it, ast.Constant)] if isinstance(node, ast.Dict) else []
    )
    return any(f"%({name})s" in source or f":{name}" in source for name in map(str, names))


def _ignored(tree: ast.AST) -> set[int]:
    """Return the ids of the nodes in which a change means nothing."""
    silent: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]
            parts += [node.returns, *(it.annotation for it in arguments), *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            parts += node.decorator_list
        elif isinstance(node, ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.keyword) and node.arg == "strict":
            # `zip(..., strict=True)` is an assertion.
            parts.append(node)
        if _is_silent(node):
            parts.append(node)
        for part in filter(None, parts):
            silent.update(id(inner) for inner in ast.walk(part))
    return silent


def _is_silent(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return _is_log(node.value) or isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        # An example of the interface description. Tests compare it with its schema.
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return ast.unparse(targets[0]).endswith("_EXAMPLE")
    return isinstance(node, ast.Call) and _name(node) in _SILENT_CALLS


Change = Callable[[Any], object]


def _changes(node: ast.AST, signatures: Signatures | None) -> Iterator[Change]:
    """Yield the changes that can be made to a node in place."""
    match node:
        case ast.Compare(ops=[one]) if type(one) in _COMPARISONS:
            yield lambda it: setattr(it, "ops", [_COMPARISONS[type(one)]])
        case ast.BoolOp():
            yield lambda it: setattr(it, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.If() | ast.IfExp() | ast.While():
            yield lambda it: setattr(it, "test", ast.UnaryOp(ast.Not(), it.test))
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not _has_text(node):
            opposite = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield lambda it: setattr(it, "op", opposite)
        case ast.Constant():
            yield from _changes_of_constant(node)
        case ast.Dict(keys=[_, _, *_]):
            for place in range(len(node.keys)):
                yield partial(_pop_entry, place)
        case ast.Call():
            yield from _changes_of_call(node, signatures)
        case ast.stmt():
            yield from _changes_of_statement(node)


def _changes_of_constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield lambda it: setattr(it, "value", not it.value)
    elif isinstance(node.value, int):
        # Nobody depends on the exact number of so many milliseconds.
        yield lambda it: setattr(it, "value", it.value + 1 if it.value < 1_000 else it.value * 2)


def _changes_of_statement(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.Expr(value=ast.Call()):
            yield lambda it: setattr(it, "value", ast.Constant(None))
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield lambda it: setattr(it, "value", ast.Constant(None))
        case ast.Raise(exc=ast.expr()):
            yield lambda it: setattr(it, "exc", ast.Name("KeyError", ast.Load()))


def _changes_of_call(node: ast.Call, signatures: Signatures | None) -> Iterator[Change]:
    name = _name(node)
    if (name == "where" and len(node.args) > 1) or name == "values":
        for place in range(len(node.args)):
            yield partial(_pop, "args", place)
        for place in range(len(node.keywords)):
            yield partial(_pop, "keywords", place)
    if name in _LINKS and isinstance(node.func, ast.Attribute) and not _is_text(node.func.value):
        yield _leave_out
    for place, keyword in enumerate(node.keywords):
        if keyword.arg in ("skip_locked", "of", "nowait"):
            yield partial(_pop, "keywords", place)
    if name not in _SYMMETRIC:
        yield from _swaps(node, signatures)


def _swaps(node: ast.Call, signatures: Signatures | None) -> Iterator[Change]:
    for place in range(len(node.args) - 1):
        is_refused = signatures is not None and signatures.differ(_name(node), place)
        if not is_refused and all(_is_plain(argument) for argument in node.args[place : place + 2]):
            yield partial(_swap_arguments, place)
    for place in range(len(node.keywords) - 1):
        if all(_is_plain(it.value) and it.arg for it in node.keywords[place : place + 2]):
            yield partial(_swap_keywords, place)


def _leave_out(node: Any) -> None:
    """Replace `statement.order_by(...)` by the call of a function that returns `statement`."""
    parameters = ast.arguments([], [ast.arg("it")], None, [], [], None, [])
    itself = ast.Lambda(parameters, ast.Name("it", ast.Load()))
    node.func, node.args, node.keywords = itself, [node.func.value], []


def _pop(name: str, place: int, node: Any) -> None:
    getattr(node, name).pop(place)


def _pop_entry(place: int, node: Any) -> None:
    node.keys.pop(place)
    node.values.pop(place)


def _swap_arguments(place: int, node: Any) -> None:
    node.args[place], node.args[place + 1] = node.args[place + 1], node.args[place]


def _swap_keywords(place: int, node: Any) -> None:
    one, other = node.keywords[place : place + 2]
    one.value, other.value = other.value, one.value


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Constant)


def _is_log(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("logger.", "self._logger."))


def _has_text(node: ast.BinOp) -> bool:
    return any(isinstance(it, ast.JoinedStr) or _is_text(it) for it in ast.walk(node))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""


def _short(before: str, after: str) -> str:
    """Return the two texts from a little before their first difference."""
    same = next((i for i, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1), 0)
    begin = max(0, same - 30)
    one, other = (" ".join(text[begin : begin + 90].split()) for text in (before, after))
    return f"{one!r} -> {other!r}"
