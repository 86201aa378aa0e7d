"""The results of each module, kept so that a run goes on where the one before it was stopped."""

import ast
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path

from mutation.children import Outcome


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a change. `key` identifies it (`key_of`)."""

    key: str
    line: int
    what: str
    outcome: Outcome
    #: The test that noticed the change, or the last one that ran.
    test: str


def key_of(before: str, changed: str) -> str:
    """Return what identifies a change of a module: the statements that differ, as they were and as they are.

    So the results of a function stay if another one is edited.
    """
    pairs = zip_longest(_statements(before), _statements(changed))
    return sha256(repr([pair for pair in pairs if pair[0] != pair[1]]).encode()).hexdigest()[:16]


@lru_cache(maxsize=2)
def _statements(source: str) -> list[str]:
    return [ast.unparse(it) for it in ast.parse(source).body]


class Results:
    """The results in a folder: a file for each module, with a JSON object in each line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def of(self, module: Path) -> dict[str, Result]:
        """Return the last result of each change of a module."""
        file = self._file(module)
        lines = file.read_text().splitlines() if file.exists() else []
        results = (Result(**json.loads(line)) for line in lines)
        return {it.key: it for it in results}

    def add(self, module: Path, result: Result) -> None:
        """Keep a result. Several processes may do so at once."""
        with self._file(module).open("a") as file:
            file.write(f"{json.dumps(asdict(result))}\n")

    def _file(self, module: Path) -> Path:
        return self._folder / f"{'.'.join(module.with_suffix('').parts[2:])}.jsonl"


def table(rows: Iterable[tuple[str, int, Iterable[Result], int]]) -> Iterator[str]:
    """Yield the lines of a table.

    Each row has a module, how many changes it has, its results, and how many that survived are harmless.
    """
    yield "| module | changes | tried | killed | timed out | survived | of these harmless |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for module, changes, results, harmless in rows:
        outcomes = [it.outcome for it in results]
        counts = [outcomes.count(it) for it in (Outcome.KILLED, Outcome.TIMED_OUT, Outcome.SURVIVED)]
        yield f"| `{module}` | {changes} | {len(outcomes)} | {' | '.join(map(str, counts))} | {harmless} |"
