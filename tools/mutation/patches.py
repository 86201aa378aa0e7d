"""Makes a change in modules that are imported already, if that has the same effect as to import them changed.

So one process collects the tests once, and each change costs a fork instead of the import of the project. It
works for the bodies of functions, and for constants that only the bodies of functions use.
"""

import ast
import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from types import CodeType, FunctionType, ModuleType
from typing import Any

#: The place of a function: the names of those around it, and which of the same name it is.
Place = tuple[tuple[str, int], ...]

#: Functions that make a value. So do those of the module itself, and classes.
_PURE = {
    "text",
    "literals",
    "bindparam",
    "bindparams",
    "columns",
    "compile",
    "frozenset",
    "tuple",
    "dict",
    "timedelta",
    "join",
    "replace",
    "format",
}
_REGISTERS = {"Blueprint", "TypeVar", "ContextVar"}


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of a module that is imported already: its whole text, and the statements of changed constants.

    Without a constant, functions are changed.
    """

    source: str
    constants: tuple[str, ...]


def make_patch(before: str, after: str, used_on_import: set[str]) -> Patch | None:
    """Return the patch that turns one text of a module into the other, or None if it has to be imported.

    A constant cannot be patched if it is one of `used_on_import`: other modules use those on import.
    """
    old, new = ast.parse(before), ast.parse(after)
    if len(old.body) != len(new.body):
        return None
    constants: dict[str, str] = {}
    functions = {it.name: it for it in new.body if isinstance(it, ast.FunctionDef)}
    for was, becomes in zip(old.body, new.body, strict=True):
        uses = _names(becomes, functions) & set(constants)
        name = _constant(becomes)
        if name and (uses or _is_changed(was, becomes)):
            if name in used_on_import or name != _constant(was) or not _is_value(becomes):
                return None
            constants[name] = ast.unparse(becomes)
        elif _is_changed(was, becomes):
            return None
        elif uses:
            users = {
                name for name, it in functions.items() if it is not becomes and _names(it, functions) & uses
            }
            if _uses_on_import(becomes, uses | users):
                return None
    return Patch(after, tuple(constants.values()))


def _names(statement: ast.stmt, functions: Mapping[str, ast.FunctionDef]) -> set[str]:
    """Return the names in a statement, and those in the functions of the module that it names."""
    found: set[str] = set()
    waiting: list[ast.stmt] = [statement]
    while waiting:
        names = {it.id for it in ast.walk(waiting.pop()) if isinstance(it, ast.Name)} - found
        waiting += [functions[it] for it in names if it in functions]
        found |= names
    return found


def _constant(statement: ast.stmt) -> str:
    """Return the name that a statement gives to a value, or nothing."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _is_value(statement: ast.stmt) -> bool:
    """Return True if the value is made without registering it anywhere, so that it can be made again."""
    calls = [it.func for it in ast.walk(statement) if isinstance(it, ast.Call)]
    names = [it.attr if isinstance(it, ast.Attribute) else getattr(it, "id", "") for it in calls]
    return all((it in _PURE or it[:1].isupper() or it[:1] == "_") and it not in _REGISTERS for it in names)


def _is_changed(was: ast.stmt, becomes: ast.stmt) -> bool:
    """Return True if a statement does something else on import, the bodies of functions apart."""
    # Written anew, so that a default on another line than before makes no difference.
    one, other = (compile(ast.unparse(it), "", "exec", dont_inherit=True) for it in (was, becomes))
    return _on_import(one) != _on_import(other)


def _on_import(code: CodeType) -> tuple[Any, ...]:
    """Return what a module or a class does on import."""
    consts = tuple(
        (it.co_name if it.co_flags & CO_OPTIMIZED and not it.co_name.startswith("<") else _on_import(it))
        if isinstance(it, CodeType)
        else (type(it), it)
        for it in code.co_consts
    )
    return (code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars)


def _uses_on_import(statement: ast.stmt, names: set[str]) -> bool:
    code = compile(ast.Module([statement], []), "", "exec", dont_inherit=True)
    return any(names & set(it.co_names) for it in _run_on_import(code))


def _run_on_import(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and not (inner.co_flags & CO_OPTIMIZED and inner.co_name[0] != "<"):
            yield from _run_on_import(inner)


def codes_of(code: CodeType, around: Place = ()) -> Iterator[tuple[Place, CodeType]]:
    """Yield the code of every function and class in `code`, with its place."""
    same: Counter[str] = Counter()
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            place = (*around, (inner.co_name, same[inner.co_name]))
            same[inner.co_name] += 1
            yield place, inner
            yield from codes_of(inner, place)


class LiveModule:
    """A module that is imported, with its functions, wherever they are used."""

    def __init__(self, module: ModuleType, source: str, functions: Iterable[FunctionType]) -> None:
        self._module = module
        places = {code: place for place, code in codes_of(compile(source, str(module.__file__), "exec"))}
        self._functions = [(places[it.__code__], it) for it in functions if it.__code__ in places]

    def apply(self, patch: Patch) -> None:
        """Make the change in this process. Raise ValueError if a function cannot be replaced."""
        for statement in patch.constants:
            self._set(statement)
        if not patch.constants:
            codes = dict(codes_of(compile(patch.source, str(self._module.__file__), "exec")))
            for place, function in self._functions:
                function.__code__ = codes.get(place, function.__code__)

    def _set(self, statement: str) -> None:
        """Run a statement that gives a name to a value, for all modules that have imported the name."""
        values = dict(vars(self._module))
        exec(compile(statement, str(self._module.__file__), "exec"), values)  # noqa: S102  # own code, changed
        name = _constant(ast.parse(statement).body[0])
        before = vars(self._module)[name]
        for module in list(sys.modules.values()):
            if isinstance(module, ModuleType) and vars(module).get(name) is before:
                setattr(module, name, values[name])


def functions_by_file() -> dict[str, list[FunctionType]]:
    """Return every function of this process by its file."""
    found: dict[str, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # or it would find none
    for it in gc.get_objects():
        if isinstance(it, FunctionType):
            found[it.__code__.co_filename].append(it)
    return found
