"""What the checks of installs share: how they run programs, fail, speak, and read what operators are told."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: What the commands of the runbooks' table begin with.
_PROGRAMS = ("curl ", "docker-compose ", "journalctl ", "kubectl ", "migration-service ", "systemctl ")
_NAME = Path(sys.argv[0]).stem.replace("_", "-")


class CheckError(Exception):
    """A check failed. The message says which one."""


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"{_NAME}: {text}", flush=True)


def run(*command: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program. Raise CheckError with its output if it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    if check and done.returncode:
        said = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}".strip()
        raise CheckError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    return done


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of the container engine."""
    return run("docker", *arguments, check=check)


def inspect(container: str, template: str) -> str:
    """Return what the engine knows about a container."""
    return docker("inspect", "--format", template, container).stdout.strip()


def log_of(container: str) -> str:
    """Return the log of a container."""
    done = docker("logs", container)
    return done.stdout + done.stderr


def runbook_commands(column: int) -> list[str]:
    """Return the commands of a column of the table in the runbooks: for hosts, Compose and Kubernetes."""
    table = (ROOT / "docs/operators/runbooks.md").read_text().partition("\n## ")[0]
    cells = [line.split(" | ")[column] for line in table.splitlines() if line.startswith("| ")]
    commands = [it for cell in cells for it in re.findall("`([^`]+)`", cell) if it.startswith(_PROGRAMS)]
    if len(commands) < 5:
        raise CheckError("The table of the runbooks has fewer commands than it had.")
    return commands


def exit_with(check: Callable[[], None]) -> None:
    """Run a check. Exit with status 1, and say what failed, if it does."""
    try:
        check()
    except CheckError as error:
        sys.exit(f"{_NAME}: {error}")
    say("passed")
