"""Compares two checkouts: which rows changed, and which differences are only noise of the machine.

Both run at the same time with their own servers, and are measured in turn, so that other load on the machine
affects both. Each round gives one ratio. A row has changed if the confidence interval of the mean ratio, at
99 %, does not contain 1.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import exp, log, sqrt
from pathlib import Path
from statistics import median, stdev
from typing import Any

from benchmarks.bench import Extent, Reading, alternate, median_costs
from benchmarks.prepare import say

_ROOT = Path(__file__).parent.parent
#: Student's t at 99 %, two-sided, for 1, 2, ... degrees of freedom.
_T = (63.7, 9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17, 3.11, 3.05, 3.01, 2.98)


@dataclass(frozen=True, slots=True)
class Change:
    """The ratio of a value of this checkout to the other's, and the bounds of the ratio."""

    ratio: float
    low: float
    high: float

    @property
    def is_real(self) -> bool:
        """Return True if the rounds agree that there is a difference."""
        return not self.low <= 1.0 <= self.high

    def __str__(self) -> str:
        verdict = "CHANGED" if self.is_real else "within noise"
        return f"{self.ratio:.2f} ({self.low:.2f} to {self.high:.2f}) {verdict}"


def compare_checkouts(ref: str, names: Sequence[str], extent: Extent, rounds: int, *, quick: bool) -> str:
    """Measure `names` in this checkout and in that of `ref`, and return the table."""
    other = _check_out(ref)
    readings: dict[str, list[tuple[Reading, ...]]] = {}
    with ExitStack() as over:
        say("starting both services ...")
        sides = [over.enter_context(_side(root, quick=quick)) for root in (other, _ROOT)]
        for name in names:
            say(f"comparing {name} ...")
            for side in sides:
                side(name, 1)
            probes = (partial(side, name, extent.seconds) for side in sides)
            readings[name] = [*zip(*alternate(rounds, *probes), strict=True)]
    return _format(ref, readings)


@contextmanager
def _side(root: Path, *, quick: bool) -> Iterator[Callable[[str, float], Reading]]:
    """Yield what returns one round of a probe, of one checkout."""
    # Each side runs its own benchmarks, because they import modules of its service, which may have moved.
    with subprocess.Popen(
        [str(root / ".venv/bin/python"), "-m", "benchmarks.side", "quick" if quick else "full"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": f"{root}:{root / 'tests'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        questions, answers = process.stdin, process.stdout
        assert questions and answers

        def answer() -> dict[str, Any]:
            if line := answers.readline():
                return dict(json.loads(line))
            sys.exit("A side of the comparison ended. Its last lines are above.")

        def measure(name: str, seconds: float) -> Reading:
            questions.write(f"{name} {seconds}\n")
            questions.flush()
            return Reading(**answer())

        answer()  # that it is ready
        yield measure


def _check_out(ref: str) -> Path:
    """Return a checkout of `ref` with its environment, in .make/compare."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if not commit:
        sys.exit(f"There is no commit {ref}. Name a branch, a tag or a commit: --compare main")
    root = _ROOT / ".make" / "compare" / commit[:12]
    if not root.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", str(root), commit)
    lock = "requirements-local.lock"
    if subprocess.run([sys.executable, "tools/environment.py", lock], cwd=root, check=False).returncode:
        sys.exit(f"The environment of {ref} cannot be made.")
    return root


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def change_of(pairs: Sequence[tuple[float, float]]) -> Change:
    """Return the change from the first to the second value of each pair, which are of the same round."""
    logs = [log(ours / theirs) for theirs, ours in pairs if theirs and ours]
    if len(logs) < 2:
        return Change(exp(logs[0]) if logs else 1.0, 0.0, float("inf"))
    middle = sum(logs) / len(logs)
    spread = _T[min(len(logs) - 1, len(_T)) - 1] * stdev(logs) / sqrt(len(logs))
    return Change(exp(middle), exp(middle - spread), exp(middle + spread))


def _format(ref: str, readings: dict[str, list[tuple[Reading, ...]]]) -> str:
    lines = [
        f"This checkout beside {ref}: ratios, new / old, with their 99 % interval.",
        "",
        "| what | rate | processor time of one | rate, old and new | p95, old and new |",
        "|---|---|---|---|---|",
    ]
    for name, pairs in readings.items():
        rate = change_of([(old.rate, new.rate) for old, new in pairs])
        cost = change_of([(old.cost, new.cost) for old, new in pairs])
        rates = [median(pair[side].rate for pair in pairs) for side in (0, 1)]
        p95 = [median(pair[side].p95_ms or 0.0 for pair in pairs) for side in (0, 1)]
        late = f"{p95[0]:.1f}, {p95[1]:.1f} ms" if p95[0] else ""
        lines.append(f"| {name} | {rate} | {cost} | {rates[0]:,.0f}, {rates[1]:,.0f} /s | {late} |")
    lines += ["", "Processor time of one by program, in ms, old -> new:", ""]
    for name, pairs in readings.items():
        old, new = (median_costs(side) for side in zip(*pairs, strict=True))
        programs = (f"{it} {old.get(it, 0.0):.2f} -> {new.get(it, 0.0):.2f}" for it in sorted(old | new))
        lines.append(f"* {name}: {', '.join(programs)}")
    return "\n".join(lines)
