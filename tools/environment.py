"""Installs a lock file into `.venv`: `python3 tools/environment.py requirements.lock`.

It runs before anything is installed, so it uses the standard library only. Empty files in the environment,
which are named after the content of the lock files, record what is installed. So it does nothing if nothing
changed.
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
CLIENT = ROOT / "clients" / "python"
#: One of the files that `tools/client_code.py` writes.
MODELS = "src/migration_service_client/models.py"
#: What they are written from.
DESCRIBING = (
    "requirements.lock",
    "src/migration_payloads/**/*.py",
    "src/migration_service/**/*.json",
    "src/migration_service/**/*.py",
    "tools/client_*.py",
    "tools/description/write.py",
)


def main(lock_file: Path) -> None:
    """Create the environment, or exit with a message that says why that is not possible."""
    (ROOT / ".make").mkdir(exist_ok=True)
    # `make run` and `make test` may be started at the same moment.
    with (ROOT / ".make" / "environment.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not works():
            create()
        once(lock_file, install_packages)
        once(ROOT / "setup.cfg", install_project)
        write_client()
        once(CLIENT / "setup.cfg", install_project)


def once(file: Path, install: Callable[[Path], None]) -> None:
    """Call `install` with `file` unless that was done already for its present content."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    stamp = VENV / f"installed-{file.stem}-{digest}"
    if not stamp.exists():
        install(file)
        stamp.touch()


def works() -> bool:
    """Return True if the environment's Python starts and is new enough. One that was moved does not start."""
    check = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", check], check=False).returncode == 0


def create() -> None:
    """Create an empty virtual environment."""
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            f"{sys.executable} cannot make a virtual environment: install what it lacks for that "
            "(python3-venv on Debian and Ubuntu), or name another one: make PYTHON=/path/to/python3"
        )
    shutil.rmtree(VENV, ignore_errors=True)
    say(f"making a virtual environment with {sys.executable}")
    run(sys.executable, "-m", "venv", str(VENV))


def install_packages(lock_file: Path) -> None:
    """Install the packages of a lock file. A package with another hash is an error."""
    say(f"installing what {lock_file.name} lists (half a minute the first time)")
    pip("--require-hashes", "--requirement", str(lock_file))


def install_project(metadata: Path) -> None:
    """Install this project itself, or its client, in place with its command."""
    pip("--no-deps", "--no-build-isolation", "--editable", str(metadata.parent))


def write_client() -> None:
    """Write what the client has from the description, unless that was done for the present code."""
    files = sorted(file for pattern in DESCRIBING for file in ROOT.glob(pattern))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    written = ROOT / ".make" / "client"
    if not (CLIENT / MODELS).exists() or not written.exists() or written.read_text() != digest:
        say("writing what the client has from the description of the interface")
        run(str(PYTHON), str(ROOT / "tools" / "client_code.py"))
        written.write_text(digest)


def pip(*arguments: str) -> None:
    """Run `pip install` in the environment."""
    run(str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def run(*command: str) -> None:
    """Run a command. If it fails, exit with its status."""
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(status)


def say(text: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{text} ...\n")


if __name__ == "__main__":
    try:
        main(ROOT / sys.argv[1])
    except OSError as error:
        sys.exit(f"The environment cannot be made: {error}")
