"""Tells which lines use a constant of a module, so that a change of it is tried with the tests of those."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: A module's path below the root of the project, and a name in it.
Name = tuple[str, str]
#: A module's path, and a line.
Line = tuple[str, int]


@dataclass(slots=True)
class _Uses:
    """What uses a name: lines of functions, and names that are set with it on import."""

    lines: set[Line] = field(default_factory=set)
    names: set[Name] = field(default_factory=set)
    #: Modules that use it on import.
    on_import: set[str] = field(default_factory=set)


class Uses:
    """The uses of all names of modules below `root`."""

    def __init__(self, root: Path, package: Path) -> None:
        self._root = root
        self._uses: dict[Name, _Uses] = defaultdict(_Uses)
        self._importers: dict[str, set[str]] = defaultdict(set)
        for path in sorted((root / package).rglob("*.py")):
            self._read(str(path.relative_to(root)), path)

    def lines_with(self, name: Name) -> set[Line]:
        """Return the lines of functions that use a name, or one that is set with it."""
        found: set[Line] = set()
        seen, waiting = {name}, [name]
        while waiting:
            uses = self._uses[waiting.pop()]
            found |= uses.lines
            waiting += uses.names - seen
            seen |= uses.names
        return found

    def used_on_import(self, module: str) -> set[str]:
        """Return the names of a module that other modules use while they are imported."""
        return {name for (of, name), uses in self._uses.items() if of == module and uses.on_import - {module}}

    def importers(self, module: str) -> set[str]:
        """Return the modules that import something of a module."""
        return self._importers[module]

    def imports(self, module: str) -> set[str]:
        """Return the modules of which a module imports something."""
        return {it for it, importers in self._importers.items() if module in importers}

    def _read(self, module: str, path: Path) -> None:
        tree = ast.parse(path.read_text())
        known = {name: (module, name) for name in _assigned(tree)}
        modules: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    source, name = self._find(node.module, alias.name)
                    self._importers[source].add(module)
                    if name:
                        known[alias.asname or alias.name] = (source, name)
                    else:
                        modules[alias.asname or alias.name] = source
        for statement in tree.body:
            inner = set(_in_functions(statement))
            for node in ast.walk(statement):
                used = _name(node, known, modules)
                if used is None:
                    continue
                if node in inner:
                    self._uses[used].lines.add((module, node.lineno))  # type: ignore[attr-defined]
                else:
                    self._uses[used].on_import.add(module)
                    self._uses[used].names |= {(module, target) for target in _targets(statement)}

    def _find(self, module: str, name: str) -> Name:
        """Return the module and name that an import means. The name is empty if a module is imported."""
        path = f"src/{module.replace('.', '/')}"
        if (self._root / path / f"{name}.py").exists():
            return f"{path}/{name}.py", ""
        return (f"{path}.py", name) if (self._root / f"{path}.py").exists() else (f"{path}/__init__.py", name)


def _assigned(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        yield from _targets(statement)


def _targets(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Assign(targets=targets):
            return [it.id for it in targets if isinstance(it, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
    return []


def _in_functions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes that run when functions are called."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef):
            for part in node.body:
                yield from ast.walk(part)


def _name(node: ast.AST, known: dict[str, Name], modules: dict[str, str]) -> Name | None:
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return known.get(name)
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
            return modules[module], name
    return None
