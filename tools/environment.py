"""Makes `.venv` what a lock file says: `python3 tools/environment.py requirements.lock`.

Runs before anything is installed, so it has the standard library only. What is installed already is known
by stamps in the environment that are named after the content of the files: nothing changed, nothing done.
"""

import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"


def main(lock_file: Path) -> None:
    """Make the environment, or exit with a sentence that says why that is not possible."""
    (ROOT / ".make").mkdir(exist_ok=True)
    # `make run` and `make test` may be started at the same moment.
    with (ROOT / ".make" / "environment.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not works():
            create()
        once(lock_file, install_packages)
        once(ROOT / "setup.cfg", install_project)


def once(file: Path, install: Callable[[Path], None]) -> None:
    """Call `install` with `file` unless that was done already for its present content."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    stamp = VENV / f"installed-{file.stem}-{digest}"
    if not stamp.exists():
        install(file)
        stamp.touch()


def works() -> bool:
    """Whether the environment's Python starts and is new enough: one that was moved does not start."""
    check = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", check], check=False).returncode == 0


def create() -> None:
    """Make an empty virtual environment."""
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            f"{sys.executable} cannot make a virtual environment: install what it lacks for that "
            "(python3-venv on Debian and Ubuntu), or name another one: make PYTHON=/path/to/python3"
        )
    shutil.rmtree(VENV, ignore_errors=True)
    say(f"making a virtual environment with {sys.executable}")
    run(sys.executable, "-m", "venv", str(VENV))


def install_packages(lock_file: Path) -> None:
    """Install what a lock file lists, and nothing that has another hash."""
    say(f"installing what {lock_file.name} lists (half a minute the first time)")
    pip("--require-hashes", "--requirement", str(lock_file))


def install_project(metadata: Path) -> None:
    """Install this project itself, in place, so that its commands are there."""
    pip("--no-deps", "--no-build-isolation", "--editable", str(metadata.parent))


def pip(*arguments: str) -> None:
    """Run `pip install` in the environment."""
    run(str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def run(*command: str) -> None:
    """Run a command, or end as it ended."""
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(status)


def say(text: str) -> None:
    """A line for the person who waits."""
    sys.stderr.write(f"{text} ...\n")


if __name__ == "__main__":
    try:
        main(ROOT / sys.argv[1])
    except OSError as error:
        sys.exit(f"The environment cannot be made: {error}")
