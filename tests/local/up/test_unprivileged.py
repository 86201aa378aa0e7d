"""If root starts `up`, no part of it runs as root, whatever files root has in the home folder."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from unittest.mock import patch

import pytest

from migration_service_local.servers import runtime_copy, unprivileged
from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.runtime_copy import Runtime, find_runtime
from migration_service_local.servers.unprivileged import hand_over, leave_root
from support.servers import temporary_folder

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = temporary_folder()
    yield folder
    shutil.rmtree(folder)


@only_root
def test_links_in_a_home_folder_change_no_owner_elsewhere(folder: Path) -> None:
    account = ServerAccount.choose()
    home, elsewhere = folder / "home", folder / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    for name in ("linked", "named twice"):
        (elsewhere / name).touch(mode=0o600)
    (home / "link").symlink_to(elsewhere / "linked")
    (home / "folder").symlink_to(elsewhere)
    os.link(elsewhere / "named twice", home / "other name")
    (home / "own").touch(mode=0o600)
    os.mkfifo(home / "pipe")
    hand_over(home, account)
    owners = {path.name: path.lstat().st_uid for path in (*elsewhere.iterdir(), *home.iterdir(), elsewhere)}
    assert owners.pop("own") == account.user
    assert set(owners.values()) == {0}
    assert home.stat().st_uid == account.user


@only_root
def test_the_copy_belongs_to_root_and_runs_as_the_account(folder: Path) -> None:
    account = ServerAccount.choose()
    with (
        patch.object(runtime_copy, "_SHARED", folder / "no" / "such"),
        patch.object(sys, "executable", "/nonexistent"),
    ):
        runtime = find_runtime(account, folder / "runtime")
    assert runtime.works
    assert runtime.root.is_relative_to(folder)
    assert runtime.root.stat().st_uid == 0
    show = "import os, migration_service; print(os.getuid(), migration_service.__file__)"
    ran = account.run([str(runtime.python), "-c", show], environment=runtime.environment)
    assert ran.stdout.split() == [
        str(account.user),
        str(runtime.root / "src/migration_service/__init__.py"),
    ], ran.stderr
    assert (runtime.root / "wsgi.py").exists()
    assert [path for path in modules_of(runtime.root) if not Path(cache_from_source(path)).exists()] == []


def modules_of(root: Path) -> list[Path]:
    modules = list((root / "src").rglob("*.py"))
    assert modules
    return modules


@only_root
def test_old_copies_are_removed_unless_something_runs_from_them(folder: Path) -> None:
    used, unused, new = (folder / f"service-{name}" for name in ("used", "unused", "new"))
    for copy in (used, unused, new):
        (copy / "src").mkdir(parents=True)
    for copy in (used, unused):
        os.utime(copy, (time.time() - 90_000,) * 2)
    running = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        env={"PYTHONPATH": os.pathsep.join([str(used / "src"), str(used / "site-packages")])},
    )
    try:
        with patch.object(sys, "executable", "/nonexistent"):
            copied = runtime_copy._copied(ServerAccount.choose(), root(), folder).root
    finally:
        running.communicate()
    assert sorted(folder.glob("service-*")) == sorted([copied, new, used])


@only_root
def test_a_shared_folder_that_others_own_is_not_used(folder: Path) -> None:
    account = ServerAccount.choose()
    shared = folder / "shared"
    shared.mkdir()
    os.chown(shared, account.user, account.group)
    with (
        patch.object(runtime_copy, "_SHARED", shared),
        patch.object(runtime_copy, "_can_run", lambda _account, runtime: runtime.root != root()),
        patch.object(runtime_copy, "_copied", lambda _account, _root, place: Runtime(Path("x"), place)),
    ):
        assert find_runtime(account, folder / "own").root == folder / "own"


def root() -> Path:
    return Path(runtime_copy.__file__).resolve().parents[3]


@only_root
@pytest.mark.parametrize("fault", ["nothing runs", "no space"])
def test_it_runs_as_root_with_a_warning_if_the_account_can_run_nothing(folder: Path, fault: str) -> None:
    def find(_account: ServerAccount, _folder: Path) -> Runtime:
        if fault == "no space":
            raise OSError(28, "No space left on device")
        return Runtime(Path("python"), folder, works=False)

    said: list[str] = []
    with (
        patch.object(unprivileged, "find_runtime", find),
        patch.object(os, "execve", side_effect=AssertionError),
    ):
        leave_root(folder / "home", said.append)
    assert len(said) == 1
    assert "The service runs as root" in said[0]
    assert os.geteuid() == 0


def test_an_ordinary_user_is_not_changed(folder: Path) -> None:
    account = ServerAccount(1000, 1000, "somebody", switch=False)
    with (
        patch.object(ServerAccount, "choose", return_value=account),
        patch.object(os, "execve", side_effect=AssertionError),
    ):
        leave_root(folder / "home", pytest.fail)
    assert not (folder / "home").exists()
