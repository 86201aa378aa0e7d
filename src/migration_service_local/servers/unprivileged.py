"""Continues as an ordinary user if root started us, so that no part of `up` runs as root.

The account is the one that the servers use. If it cannot read the checkout or the interpreter, for example
below /root, it runs a copy of both (`runtime_copy`). If that does not work either, `up` reports it and
continues as root, with the servers as that account. This never prevents the start.
"""

import fcntl
import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.runtime_copy import Runtime, find_runtime

#: Folders that the servers' account owns already, or that root keeps.
_NOT_HANDED_OVER = ("postgres", "valkey", "runtime")
_MAIN = "from migration_service.cli import main; main(prog_name='migration-service')"


def leave_root(home: Path, say: Callable[[str], None]) -> None:
    """Become the servers' account and start the same command again, if we are root. Otherwise return.

    Also return if the home folder cannot be used, because `Home` then explains why, and if that account can
    run nothing.
    """
    account = ServerAccount.choose()
    if not account.switch:
        return
    home = home.resolve()
    try:
        runtime = _prepare(home, account)
    except OSError as error:
        say(f"The service runs as root, as it cannot be prepared to run as {account.name!r}: {error}")
        return
    if runtime is None:
        return
    if not runtime.works:
        say(f"The service runs as root, as {account.name!r} can run neither it nor a copy of it.")
        return
    arguments = [str(runtime.python), "-c", _MAIN, *sys.argv[1:], "--home", str(home)]
    environment = _environment(home, account, runtime)
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(home)
    os.setgroups([])
    os.setgid(account.group)
    os.setuid(account.user)
    os.execve(arguments[0], arguments, environment)


def _prepare(home: Path, account: ServerAccount) -> Runtime | None:
    """Give the home folder to the account. Return what it can run, or None if the folder cannot be used."""
    if not home.exists():
        home.mkdir(parents=True)
        home.chmod(0o700)
    if not _can_reach(home, account):
        return None
    with (home / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # A service is running. Its files are not changed.
            return None
        hand_over(home, account)
        return find_runtime(account, home / "runtime")


def _can_reach(home: Path, account: ServerAccount) -> bool:
    """Return True if the account may pass through the folders above."""
    return account.can_enter(home.parent)


def hand_over(home: Path, account: ServerAccount) -> None:
    """Give the account the files that root created in an existing home folder.

    If the folder already belongs to the account, it could have put a link there. So links are not followed,
    and a file with other names still belongs to root.
    """
    for path, folders, files, descriptor in os.fwalk(home, follow_symlinks=False):
        if Path(path) == home:
            folders[:] = [name for name in folders if name not in _NOT_HANDED_OVER]
        if os.fstat(descriptor).st_uid == 0:
            os.fchown(descriptor, account.user, account.group)
        for name in files:
            with suppress(OSError):  # gone, or a link
                _hand_over_file(name, descriptor, account)


def _hand_over_file(name: str, folder: int, account: ServerAccount) -> None:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and found.st_uid == 0 and found.st_nlink == 1:
            os.fchown(file, account.user, account.group)
    finally:
        os.close(file)


def _environment(home: Path, account: ServerAccount, runtime: Runtime) -> Mapping[str, str]:
    """Return our environment, with the values of root replaced."""
    return {
        **{name: text for name, text in os.environ.items() if name not in ("MAIL", "XDG_RUNTIME_DIR")},
        "HOME": str(home),
        "USER": account.name,
        "LOGNAME": account.name,
        "PYTHONNOUSERSITE": "1",
        **runtime.environment,
    }
