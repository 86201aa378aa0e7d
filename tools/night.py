"""Runs what takes hours, one step after the other, and fails at the end if a step failed.

    python tools/night.py
    python tools/night.py --list

Every step has its own log in .make/night. The steps that ended are kept there, too, so the next call goes on
after them. It begins anew if a file of the project has changed since, or with `--fresh`. `make night` runs
this. docs/contributors/tests.md says what each step is for.
"""

import argparse
import hashlib
import json
import os
import resource
import secrets
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".make" / "night"
#: How many times all tests run in another order.
ORDERS = 10
#: How many times as many examples, compared with `make test`.
TIMES = 20
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup")


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and variables of its environment."""

    name: str
    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a step ended. The times are in seconds, `processor` of all its processes that have ended."""

    ok: bool
    summary: str
    seconds: float
    processor: float


def steps_of(seed: int) -> list[Step]:
    """Return the steps of a night. The orders of the tests follow from `seed`."""
    fuzzing = {"MIGRATION_SERVICE_FUZZ": str(TIMES)}
    generated = (
        *("tests/api/test_fuzz.py", "tests/api/imports/test_damaged_accounts.py"),
        *("tests/api/accounts/test_transaction_balances.py", "tests/unit"),
    )
    described = "tests/e2e/test_described_interface.py"
    orders = [
        Step(f"order-{index}", (*_PYTEST, f"--randomly-seed={seed + index}"))
        for index in range(1, ORDERS + 1)
    ]
    return [
        Step("coverage", ("make", "coverage", f"ARGS=--randomly-seed={seed}")),
        Step("drill", ("make", "drill", f"ARGS=--seed {seed}")),
        Step("injected-bugs", ("make", "drill", "ARGS=--inject")),
        Step("fuzz", (*_PYTEST, "--timeout", "7200", *generated), fuzzing),
        Step("described", (*_PYTEST, "--timeout", "7200", described), fuzzing),
        Step("schemathesis", ("make", "fuzz", f"ARGS=--seed {seed} --max-time 1800")),
        *orders,
        Step("known-mistakes", (sys.executable, str(Path(__file__).with_name("known_mistakes.py")))),
    ]


class Night:
    """The steps that ended so far, in a folder. `project` identifies the files that they tried."""

    def __init__(self, folder: Path, project: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._file = folder / "ended.json"
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        if kept.get("project") != project:
            kept = {"project": project, "seed": secrets.randbelow(1_000_000), "ended": {}}
        self._project = project
        self.seed: int = kept["seed"]
        self.ended = {name: Ended(**how) for name, how in kept["ended"].items()}

    def run(self, step: Step) -> Ended:
        """Run a step that has not ended yet, and keep how it ended."""
        if step.name not in self.ended:
            self.ended[step.name] = self._run(step)
            kept = {name: asdict(how) for name, how in self.ended.items()}
            text = json.dumps({"project": self._project, "seed": self.seed, "ended": kept}, indent=1)
            unfinished = self._file.with_suffix(".new")
            unfinished.write_text(text)
            unfinished.replace(self._file)
        return self.ended[step.name]

    def _run(self, step: Step) -> Ended:
        log = self._folder / f"{step.name}.log"
        started, before = time.monotonic(), _processor_time()
        with log.open("wb") as output:
            environment = os.environ | step.variables
            done = subprocess.run(
                step.command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
            )
        return Ended(
            ok=done.returncode == 0,
            summary=summary_of(log.read_text(errors="replace")),
            seconds=time.monotonic() - started,
            processor=_processor_time() - before,
        )


def summary_of(output: str) -> str:
    """Return the last line that has a letter, without what only frames it."""
    lines = [line.strip(" =─━│┃└┘") for line in output.splitlines() if any(map(str.isalpha, line))]
    return lines[-1] if lines else ""


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def project_now() -> str:
    """Return a digest of the project's files, committed or not."""
    digest = hashlib.sha256()
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    for name in sorted(filter(None, listed)):
        path = ROOT / name
        digest.update(name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Run the steps, print a line for each, and return 1 if one failed."""
    parser = argparse.ArgumentParser(description="Run what takes hours, and go on where it was stopped.")
    parser.add_argument("--only", default="", metavar="NAME", help="only steps whose names begin like this")
    parser.add_argument("--fresh", action="store_true", help="forget the steps that ended")
    parser.add_argument("--list", action="store_true", help="only list the steps")
    given = parser.parse_args()
    if given.fresh:
        (FOLDER / "ended.json").unlink(missing_ok=True)
    night = Night(FOLDER, project_now())
    steps = steps_of(night.seed)
    chosen = [step for step in steps if step.name.startswith(given.only)]
    if not chosen:
        parser.error(f"no step begins with {given.only}: {', '.join(step.name for step in steps)}")
    if given.list:
        print(*(step.name for step in chosen), sep="\n")
        return 0
    for step in chosen:
        kept = step.name in night.ended
        print(_line(step.name, night.run(step)), "(from before)" if kept else "", flush=True)
    failed = [step.name for step in chosen if not night.ended[step.name].ok]
    print(f"seed {night.seed}, {len(chosen)} steps, failed: {', '.join(failed) or 'none'}; logs in {FOLDER}")
    return 1 if failed else 0


def _line(name: str, ended: Ended) -> str:
    took = timedelta(seconds=round(ended.seconds))
    how = "ok    " if ended.ok else "FAILED"
    return f"{how} {name:<32} {took}, {ended.processor:.0f} s of processor time: {ended.summary}"


if __name__ == "__main__":
    sys.exit(main())
