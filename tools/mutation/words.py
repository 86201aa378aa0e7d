"""Tells which tests mention what was changed: those that name a column probably check it."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

_WORD = re.compile(r"[A-Za-z_]{4,}")


class Words:
    """The words of the tests in files, which are relative to `root`."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self._tests: dict[str, set[str]] = defaultdict(set)
        for file in files:
            source = (root / file).read_text()
            for node in ast.parse(source).body:
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    text = ast.get_source_segment(source, node) or ""
                    for word in set(_WORD.findall(text)):
                        self._tests[word].add(f"{file}::{node.name}")

    def mentions(self, text: str) -> Counter[str]:
        """Return how much of a text each test mentions, by its file and function. Rare words count most."""
        found: Counter[str] = Counter()
        for word in set(_WORD.findall(text)):
            for test in self._tests.get(word, ()):
                found[test] += 1_000 // len(self._tests[word])
        return found
