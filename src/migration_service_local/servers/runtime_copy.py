"""A copy of this installation for an account that cannot read the installation itself.

The copy has the interpreter, the installed packages, and the files of the project. Files are linked instead
of copied if possible, so the copy takes a few seconds once, and no space. It belongs to root, so that the
programs cannot change themselves. All services of this installation share it, in a folder of the system.
"""

import compileall
import fcntl
import hashlib
import os
import shutil
import stat
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import migration_service
from migration_service_local.servers.account import ServerAccount

_SHARED = Path("/var/cache/migration-service")
#: Seconds after its last start from which a copy that nothing runs is removed. Its linked files take no space
#: only as long as the installation has them, too.
_KEPT_SECONDS = 86_400.0
#: How many of them a start removes. Each has some twenty thousand files.
_REMOVED_AT_ONCE = 2
#: The files beside `src` that are needed to run.
PROJECT_FILES = ("wsgi.py", "celery_worker.py", "celery_monitor.py", "gunicorn.conf.py")
#: Parts of the standard library that nothing here imports.
_NOT_COPIED = (
    "test",
    "site-packages",
    "idlelib",
    "tkinter",
    "turtledemo",
    "lib2to3",
    "ensurepip",
    "config-*",
)
# These may be in different folders: the project, its packages, and their compiled parts.
_PROBE = "import sys, psycopg, migration_service_local.errors; [open(name).close() for name in sys.argv[1:]]"


@dataclass(frozen=True, slots=True)
class Runtime:
    """An interpreter, and the variables that it needs to find the service."""

    python: Path
    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    works: bool = True


def find_runtime(account: ServerAccount, folder: Path) -> Runtime:
    """Return what `account` can run: this installation or a copy.

    The copy is in `folder` if the shared one cannot be used. Raise OSError if no copy can be made.
    """
    root = Path(migration_service.__file__).resolve().parents[2]
    here = Runtime(Path(sys.executable), root)
    if _can_run(account, here):
        return here
    copy = here
    for place in (_SHARED, folder):
        if _is_safe(place):
            copy = _copied(account, root, place)
            if _can_run(account, copy):
                return copy
    return Runtime(copy.python, copy.root, works=False)


def _is_safe(folder: Path) -> bool:
    """Return True if only root can change this folder. Create it if it does not exist."""
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        folder.chmod(0o755)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0


def _can_run(account: ServerAccount, runtime: Runtime) -> bool:
    files = [str(runtime.root / name) for name in PROJECT_FILES if (runtime.root / name).exists()]
    environment = {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **runtime.environment}
    try:
        probe = account.run([str(runtime.python), "-c", _PROBE, *files], environment=environment)
    except OSError:
        return False
    return probe.returncode == 0


def _copied(account: ServerAccount, root: Path, folder: Path) -> Runtime:
    packages = Path(sysconfig.get_path("purelib"))
    copy = folder / f"service-{_digest(root, packages)}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two may start at once
        if not copy.exists():
            _copy(root, packages, copy)
        os.utime(copy)
        _remove_old(folder)
    environment = {"PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy / "site-packages")])}
    base = _base_interpreter()
    if account.can_run(base):
        return Runtime(base, copy, environment)
    libraries = {"LD_LIBRARY_PATH": str(copy / "python/lib")}
    return Runtime(copy / "python/bin" / base.name, copy, environment | libraries)


def _copy(root: Path, packages: Path, copy: Path) -> None:
    unfinished = copy.with_name(f"{copy.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    _link_tree(root / "src", unfinished / "src")
    # The programs cannot write there, so each of them would compile all modules at each start.
    compileall.compile_dir(unfinished / "src", quiet=2)
    _link_tree(packages, unfinished / "site-packages")
    for name in PROJECT_FILES:
        if (root / name).exists():
            _link(str(root / name), str(unfinished / name))
    _copy_interpreter(unfinished / "python")
    unfinished.chmod(0o755)
    unfinished.rename(copy)


def _remove_old(folder: Path) -> None:
    before = time.time() - _KEPT_SECONDS
    if old := [copy for copy in folder.glob("service-*") if copy.stat().st_mtime < before]:
        paths = list(_python_paths())
        unused = [copy for copy in old if not any(str(copy) in path for path in paths)]
        for copy in unused[:_REMOVED_AT_ONCE]:
            shutil.rmtree(copy, ignore_errors=True)


def _python_paths() -> Iterator[str]:
    """Yield where the live processes find their modules, as far as they were told."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            yield process.environ().get("PYTHONPATH", "")


def _base_interpreter() -> Path:
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def _copy_interpreter(target: Path) -> None:
    base = _base_interpreter()
    library = Path(sysconfig.get_path("stdlib"))
    (target / "bin").mkdir(parents=True)
    _link(str(base), str(target / "bin" / base.name))
    _link_tree(library, target / "lib" / library.name, *_NOT_COPIED)
    for shared in (Path(sys.base_prefix) / "lib").glob("libpython*.so*"):
        _link(str(shared.resolve()), str(target / "lib" / shared.name))
    _open(target)


def _link_tree(source: Path, target: Path, *left_out: str) -> None:
    shutil.copytree(
        source,
        target,
        copy_function=_link,
        ignore=shutil.ignore_patterns(*left_out),
        ignore_dangling_symlinks=True,
    )
    _open(target)


def _link(source: str, target: str) -> str:
    """Link a file that everybody may read. Copy other files, and those on another file system."""
    mode = Path(source).stat().st_mode
    if mode & 0o004:
        try:
            os.link(source, target, follow_symlinks=True)
        except OSError:
            shutil.copyfile(source, target)
        else:
            return target
    else:
        shutil.copyfile(source, target)
    Path(target).chmod(0o755 if mode & 0o100 else 0o644)
    return target


def _open(folder: Path) -> None:
    """Let everybody enter these folders."""
    for path, _, _ in os.walk(folder):
        Path(path).chmod(0o755)


def _digest(root: Path, packages: Path) -> str:
    """Return what identifies an installation: the versions of its packages, and the project's files."""
    lines = [sys.version, sys.base_prefix, *sorted(path.name for path in packages.glob("*.dist-info"))]
    for file in _project_files(root):
        found = file.stat()
        lines.append(f"{file.relative_to(root)} {found.st_size} {found.st_mtime_ns} {found.st_ino}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _project_files(root: Path) -> Iterator[Path]:
    yield from sorted(
        path for path in (root / "src").rglob("*.*") if path.suffix != ".pyc" and path.is_file()
    )
    yield from (root / name for name in PROJECT_FILES if (root / name).exists())
