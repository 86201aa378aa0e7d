"""`python -m drill.upgrade`: an upgrade from an earlier version under load. It exits 1 if a request failed.

The earlier version is a copy, with an environment of its own if its packages are others. Two hosts, each with
a web server behind nginx and a worker, are replaced one after the other behind the documented HAProxy:
workers first, as the pages say, and web servers first. Clients migrate accounts and a batch meanwhile.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import msgspec

from drill.clients import Journal
from drill.load import Load
from drill.scene import IN_PROGRESS, SUPPLIER, Service
from e2e.test_balancer import balancer, serving
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.tasks.names import QUEUES
from migration_service_local.samples import generate_accounts
from migration_service_local.servers.ports import LOOPBACK
from support.servers import EmbeddedServers, temporary_folder, wait_until
from support.web_servers import ROOT, nginx, web_server
from support.workers import BEAT, worker

_VERSIONS = "src/migration_service/alembic/versions"
_ORDERS = (("worker", "web"), ("web", "worker"))
_LINES = 1_000
#: Seconds that a part may take to start, on a busy machine.
_LONGEST = 300
#: Accounts that are created between two steps.
_BETWEEN = 25
_SUPPLIERS = 6


@dataclass(frozen=True, slots=True)
class Version:
    """The code of a version, with its environment."""

    name: str
    folder: Path
    python: str

    @property
    def path(self) -> str:
        """Return its PYTHONPATH, which comes before what is installed."""
        return f"{self.folder / 'src'}:{self.folder}"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout.strip()


def _last_version() -> str:
    return next(iter(_git("tag", "--sort=-creatordate").splitlines()), "HEAD~1")


def _require_path(revision: str) -> None:
    """Exit if no revision leads from the tables of `revision` to those of this version."""
    files = _git("ls-tree", "-r", "--name-only", revision, f"{_VERSIONS}/").splitlines()
    changed = [
        Path(file).name
        for file in files
        if not (ROOT / file).exists()
        or _git("show", f"{revision}:{file}") != (ROOT / file).read_text().strip()
    ]
    if changed or not files:
        what = ", ".join(changed) or "all files"
        sys.exit(f"No revision leads from the tables of {revision} to those of this version: {what} changed.")


def _check_out(revision: str) -> Version:
    commit = _git("rev-parse", "--short", f"{revision}^{{commit}}")
    folder = ROOT / ".make" / "upgrade" / commit
    if not (folder / "src").exists():
        folder.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    lock = "requirements-local.lock"
    if (folder / lock).read_bytes() == (ROOT / lock).read_bytes():
        return Version(commit, folder, sys.executable)
    subprocess.run([sys.executable, "tools/environment.py", lock], cwd=folder, check=True)
    return Version(commit, folder, str(folder / ".venv/bin/python"))


def _has_created(load: Load, number: int) -> bool:
    return len(load.journal.created()) >= number


class Hosts(Service):
    """Two hosts with a web server and a worker each, which are replaced one after the other.

    `variables` are further ones of all their environments.
    """

    def __init__(
        self,
        stack: ExitStack,
        servers: EmbeddedServers,
        folder: Path,
        old: Version,
        variables: Mapping[str, str] = {},
    ) -> None:
        self._stack, self._folder = stack, folder
        self.variables = dict(variables)
        self._settings = Settings(
            home=folder,
            database_url=servers.database_url,
            redis_url=servers.redis_url,
            secret_key=servers.home.secret("secret_key"),
        )
        self.database_url = servers.database_url
        self.redis = stack.enter_context(make_redis(servers.redis_url))
        self.sockets = folder / "one.sock", folder / "two.sock"
        self._processes = {
            (kind, host): self._start(kind, host, old) for kind in ("worker", "web") for host in (0, 1)
        }
        proxies = tuple(stack.enter_context(nginx(it)) for it in self.sockets)
        entry, self._control = stack.enter_context(balancer(folder, (proxies[0], proxies[1])))
        wait_until(self._control.exists, "HAProxy")
        wait_until(self._is_complete, "both web servers serve", _LONGEST)
        self.prepare(f"http://{LOOPBACK}:{entry}", servers.owner_url, None)

    def replace(self, kind: str, version: Version, load: Load, between: int = _BETWEEN) -> None:
        """Replace the web servers or the workers, while so many accounts are created before and between."""
        for host in (0, 1):
            wait_until(self._is_complete, "both web servers serve", _LONGEST)
            wanted = len(load.journal.created()) + between
            wait_until(partial(_has_created, load, wanted), "further accounts", _LONGEST)
            process = self._processes[kind, host]
            process.terminate()
            process.wait(90)
            self._processes[kind, host] = self._start(kind, host, version)

    def _is_complete(self) -> bool:
        return len(serving(self._control)) == 2

    def _start(self, kind: str, host: int, version: Version) -> "subprocess.Popen[bytes]":
        if kind == "worker":
            folder = self._folder / f"worker-{host}-{version.name}"
            folder.mkdir(exist_ok=True)
            heartbeat = folder / "heartbeat"
            heartbeat.unlink(missing_ok=True)
            variables = {
                "DATABASE_URL": self._settings.database_url,
                "REDIS_URL": self._settings.redis_url,
                "MIGRATION_SERVICE_SECRET_KEY": self._settings.secret_key,
                "MIGRATION_SERVICE_HEARTBEAT_FILE": str(heartbeat),
                "PYTHONPATH": version.path,
                **self.variables,
            }
            options = ("-c", "2", "-n", f"{folder.name}@%h", *(() if host else BEAT))
            running = worker(",".join(QUEUES), folder, *options, python=version.python, **variables)
            process = self._stack.enter_context(running)
            wait_until(heartbeat.exists, f"the worker {folder.name}", _LONGEST)
            return process
        leaving = {"MIGRATION_SERVICE_LEAVE_SECONDS": "5", "PYTHONPATH": version.path, **self.variables}
        program = web_server(
            self._settings, self.sockets[host], leaving, root=version.folder, python=version.python
        )
        return self._stack.enter_context(program)


def failures(journal: Journal) -> dict[str, int]:
    """Return how many requests were not answered, or not as in quiet times, by their status."""
    return {it: n for it, n in journal.statuses.items() if it in ("no answer", "429") or it.startswith("5")}


def _run(order: tuple[str, str], old: Version, new: Version) -> bool:
    folder, began = temporary_folder(), time.monotonic()
    with ExitStack() as stack:
        servers = stack.enter_context(EmbeddedServers(durable=True))
        servers.upgrade()  # the same tables: `_require_path`
        hosts = Hosts(stack, servers, folder, old)
        lines = b"\n".join(map(msgspec.json.encode, generate_accounts(_LINES, supplier=SUPPLIER, seed=7)))
        batch = hosts.start_batch(lines)
        with Load(hosts, suppliers=_SUPPLIERS) as load:
            for kind in order:
                hosts.replace(kind, new, load)
        wait_until(lambda: not hosts.query(IN_PROGRESS)[0][0], "nothing is in progress", _LONGEST)
        state = "SELECT state FROM batch WHERE id = %s"
        wait_until(lambda: hosts.query(state, batch)[0][0] == "COMPLETED", "the batch is complete", _LONGEST)
        wrong, created, journal = load.wrong(hosts), load.journal.created(), load.journal
    shutil.rmtree(folder)
    failed = failures(journal)
    total = journal.statuses.total()
    click.echo(
        f"{order[0]} first: {time.monotonic() - began:.0f} s, {total} requests, {failed or 'none'} failed; "
        f"{len(created)} accounts, {len(wrong)} lost or with another number; a batch of {_LINES} lines"
    )
    for surprise in [*journal.surprises, *wrong]:
        click.echo(f"  {surprise}")
    return not (failed or wrong or journal.surprises)


@click.command()
@click.option("--from", "revision", default=_last_version, help="The newest tag, or else HEAD~1.")
def main(revision: str) -> None:
    """Upgrade from an earlier version to this one, workers first and web servers first."""
    _require_path(revision)
    old, new = _check_out(revision), Version("new", ROOT, sys.executable)
    click.echo(f"From {old.name} to the code in {ROOT}")
    fine = [_run(order, old, new) for order in _ORDERS]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
