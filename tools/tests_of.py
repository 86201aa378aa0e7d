"""Prints which test files are about a module: `make tests-of ARGS=services.batches.work.feed`.

They are those with its name, and those that import it or the nearest module that does. Modules that no test
leads to, such as commands, have those of their folder.
"""

import ast
from collections import defaultdict
from itertools import chain
from pathlib import Path

import click
import grimp

_TESTS = Path(__file__).resolve().parent.parent / "tests"


@click.command()
@click.argument("part", default="")
def main(part: str) -> None:
    """Print the test files of every module whose name contains PART."""
    graph = grimp.build_graph("migration_payloads", "migration_service", "migration_service_local")
    importing, named = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for file in _TESTS.rglob("test_*.py"):
        path = str(file.relative_to(_TESTS.parent))
        named[file.stem.removeprefix("test_")].add(path)
        for name in _imports(file):
            importing[name if name in graph.modules else name.rpartition(".")[0]].add(path)
    for module in sorted(it for it in graph.modules if part in it):
        level, seen = {module}, set[str]()
        found = set[str]()
        while level and not found:
            found = set[str]().union(*(importing[it] for it in level))
            seen |= level
            above = (graph.find_modules_that_directly_import(it) for it in level)
            level = set[str]().union(*above) - seen
        package, _, name = module.rpartition(".")
        folder = f"/{package.rpartition('.')[2]}/"
        found |= named[name] or {path for path in chain(*named.values()) if not found and folder in path}
        click.echo("\n  ".join([module, *sorted(found)]))


def _imports(file: Path) -> list[str]:
    """Return what a file imports, as `module.name`."""
    nodes = [it for it in ast.walk(ast.parse(file.read_text())) if isinstance(it, ast.ImportFrom)]
    return [f"{node.module}.{alias.name}" for node in nodes for alias in node.names]


if __name__ == "__main__":
    main()
