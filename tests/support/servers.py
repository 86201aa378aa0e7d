"""Real servers and the real service, which tests can use, kill and start again."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self

import psutil
import psycopg
from psycopg import sql
from redis import Redis
from sqlalchemy import make_url

from migration_service.db.revisions import upgrade
from migration_service_local.servers import launch
from migration_service_local.servers.home import Home
from migration_service_local.servers.postgres import DATABASE, OWNER, Postgres
from migration_service_local.servers.process import Child, Program, stop_children
from migration_service_local.servers.valkey import Valkey
from support.kept_rows import KEEP, PLANT, REMEMBER

COMMAND = Path(sys.executable).with_name("migration-service")


def wait_until(condition: Callable[[], object], what: str, seconds: float = 240) -> None:
    """Return as soon as `condition` is true. Fail with `what` if that takes too long.

    The pauses grow up to a tenth of a second, because many conditions open a connection.
    """
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        assert waited < seconds, f"not within {seconds} s: {what}"
        time.sleep(min(0.02 + waited / 20, 0.1))


def wait_until_ready(child: Child, is_ready: Callable[[], bool]) -> None:
    """Return as soon as a server that was started answers. Fail if it ends first."""
    name = child.program.name
    wait_until(lambda: is_ready() or child.has_ended(), f"{name} is ready", 60)
    assert not child.has_ended(), f"{name} ended with {child.process.returncode} while it started"


def ending_with_us(*command: str) -> list[str]:
    """Return a command that gets SIGTERM as soon as this process has ended, even if it was killed (Linux).

    Start it from the main thread: the end of another one would count as ours.
    """
    program, *arguments = command
    ties = (str(os.getpid()), str(int(signal.SIGTERM)), "-1", "-1")
    path = shutil.which(program) or program
    return [sys.executable, "-I", "-S", launch.__file__, *ties, path, *arguments]


@contextmanager
def running(*command: str, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a program until the end of the block, with options of Popen."""
    process = subprocess.Popen(ending_with_us(*command), **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def temporary_folder() -> Path:
    """Return a new folder that other users can pass through, which pytest's folders do not allow."""
    folder = Path(tempfile.mkdtemp(prefix="migration-service-"))
    folder.chmod(0o711)
    return folder


def copy_home(prepared: Path, folder: Path) -> None:
    """Copy the data and passwords in this folder, whose servers are stopped, into another one."""
    subprocess.run(["cp", "-a", str(prepared / "home"), str(folder)], check=True)
    (folder / "home" / "ports.json").unlink()


class EmbeddedServers:
    """PostgreSQL and Valkey in their own folder, on free ports. Use it in a `with` statement.

    A folder of its own is kept. To create its data takes longest: tests not about that use `copy_of`.
    `durable=False` does not wait for the disk, which only tests of crashes need. `kill` and `start` take
    "postgres" or "valkey".
    """

    def __init__(self, folder: Path | None = None, *, durable: bool = False) -> None:
        self.folder = folder or temporary_folder()
        self._keep = folder is not None
        self.home = Home(self.folder / "home")
        self.postgres = Postgres(self.home, durable=durable)
        self.valkey = Valkey(self.home)
        self.log = self.folder / "servers.log"
        self.children: dict[str, Child] = {}
        #: How the schemas with kept rows begin. Processes that share servers each have their own.
        self.kept_prefix: LiteralString = "kept"
        self._cleaner: psycopg.Connection | None = None

    @property
    def database_url(self) -> str:
        return self.postgres.url

    @property
    def owner_url(self) -> str:
        """Return the address of the same database, with the role that owns its tables."""
        return self.postgres.owner_url

    def upgrade(self) -> None:
        """Bring the tables up to date, as `up` does."""
        upgrade(self.owner_url, runtime_role=DATABASE)

    @property
    def redis_url(self) -> str:
        return self.valkey.url

    def remember(self) -> None:
        """Keep a copy of the rows that the revisions inserted, which `empty` puts back."""
        with self.postgres.connect_as_superuser(DATABASE) as connection:
            connection.execute(REMEMBER)
            connection.execute(PLANT)

    def empty(self) -> None:
        """Delete what a test has left in the database and in Redis.

        Bindings of queues stay, as producers declare them once. No slot is held, and none has to be restored.
        """
        self._clean("CALL kept.empty()")
        redis = self._redis
        left = [key for key in redis.scan_iter(count=1_000) if not key.startswith(b"_kombu.binding.")]
        if left:
            redis.delete(*left)
        redis.hset(
            "migration:slots:state",
            mapping={"ready": 1, "admit_from": 0, "reconciled_at": redis.time()[0] * 1_000},
        )

    @cached_property
    def _redis(self) -> Redis:
        return Redis.from_url(self.redis_url)

    @contextmanager
    def keeping(self, name: LiteralString) -> Iterator[None]:
        """Keep a copy of the rows that are written in this block, for `put_back`."""
        self.empty()
        yield
        with self.postgres.connect_as_superuser(DATABASE) as connection:
            connection.execute(KEEP.format(schema=f"{self.kept_prefix}_{name}"))
        self.empty()

    def put_back(self, name: LiteralString) -> None:
        """Insert the rows that were kept under this name, as if they had been written just now."""
        self._clean(f"CALL {self.kept_prefix}_{name}.put_back()")

    def plant(self) -> None:
        """Plant a neighbour of each supplier, or plant it anew."""
        self._clean("CALL kept.plant()")

    def find_touched(self) -> list[str]:
        """Return the tables whose rows of neighbours are no longer as they were planted."""
        rows = self._clean(
            "SELECT name FROM kept.neighbours JOIN kept.planted USING (name)"
            " WHERE neighbours.sum IS DISTINCT FROM planted.sum"
        )
        return [name for (name,) in rows]

    def _clean(self, statement: LiteralString) -> psycopg.Cursor:
        # To connect takes four times as long as to empty the tables, and thousands of tests end with it.
        if self._cleaner is None:
            self._cleaner = self.postgres.connect_as_superuser(DATABASE)
        try:
            return self._cleaner.execute(statement)
        except psycopg.OperationalError:
            if not self._cleaner.closed:
                raise
            # A test has ended all sessions.
            self._cleaner = None
            return self._clean(statement)

    def connect_as_superuser(self) -> psycopg.Connection:
        """Yield a connection that may create databases and roles."""
        return self.postgres.connect_as_superuser()

    @contextmanager
    def new_database(self) -> Iterator[tuple[str, str]]:
        """Yield the addresses of a database without tables, for the role of the service and for the owner."""
        name = f"new_{secrets.token_hex(4)}"
        identifier = sql.Identifier(name)
        with self.connect_as_superuser() as admin:
            admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(identifier, sql.Identifier(OWNER)))
        urls = (make_url(url).set(database=name) for url in (self.database_url, self.owner_url))
        of_service, of_owner = (url.render_as_string(hide_password=False) for url in urls)
        yield of_service, of_owner
        with self.connect_as_superuser() as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))

    @classmethod
    def copy_of(cls, prepared: Path, *, durable: bool = False) -> "EmbeddedServers":
        """Return servers with a copy of the data and passwords in this folder, whose servers are stopped."""
        folder = temporary_folder()
        copy_home(prepared, folder)
        servers = cls(folder, durable=durable)
        servers._keep = False
        return servers

    def __enter__(self) -> Self:
        self.start("postgres")
        self.postgres.make_database()
        self.start("valkey")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cleaner is not None:
            self._cleaner.close()
        self._redis.close()
        stop_children(list(self.children.values()))
        self.home.close()
        if not self._keep:
            shutil.rmtree(self.folder)

    def start(self, name: str) -> None:
        """Start this server, and wait until it is ready."""
        server: Postgres | Valkey = self.postgres if name == "postgres" else self.valkey
        child = self._spawn(server.program())
        self.children[name] = child
        wait_until_ready(child, server.is_ready)

    def kill(self, name: str) -> None:
        """Send SIGKILL to this server and all its processes."""
        child = self.children.pop(name)
        child.kill()
        child.process.wait()

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP or SIGCONT, to this server only."""
        self.children[name].process.send_signal(number)

    def _spawn(self, program: Program) -> Child:
        with self.log.open("ab") as log:
            return Child(program, log)


class RunningService:
    """A running `migration-service up`. Use it in a `with` statement."""

    def __init__(
        self, home: Path, *arguments: str, prefix: tuple[str, ...] = (), environment: Mapping[str, str] = {}
    ) -> None:
        self.home = home
        self._log = home.parent / f"up-{time.monotonic_ns()}.log"
        inherited = {name: value for name, value in os.environ.items() if name not in _OTHER_SERVERS}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                ending_with_us(*prefix, str(COMMAND), "up", "--home", str(home), *arguments),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=inherited | dict(environment),
            )

    @property
    def output(self) -> str:
        """Return everything that it has printed so far."""
        return self._log.read_text()

    def __enter__(self) -> "RunningService":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stdout.write(self.output)
        self.stop_at_once()

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Wait until it printed `text`."""
        wait_until(
            lambda: text in self.output or self.process.poll() is not None, f"{text!r} printed", seconds
        )
        assert text in self.output, f"it ended with {self.process.returncode}:\n{self.output}"

    def wait_until_serving(self) -> None:
        """Wait until everything runs and the addresses are printed."""
        self.wait_for("serving; Ctrl-C stops everything", 150)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(90)

    def stop_at_once(self) -> None:
        """Stop as with Ctrl-C twice: the servers are stopped, and everything else is killed.

        If coverage is measured, it is stopped as usual, as killed programs would write no measurements.
        """
        coverage = sys.modules.get("coverage")
        if self.process.poll() is None and not (coverage and coverage.Coverage.current()):
            self.process.send_signal(signal.SIGINT)
        self.stop(signal.SIGTERM)

    def find(self, name: str) -> psutil.Process | None:
        """Return the process of a program (`web`, `valkey` ...) that `up` started, or None."""
        folder = {"postgres": "postgres/data", "valkey": "valkey"}.get(name, f"programs/{name}")
        working = processes_in(self.home / folder)
        others = {process.pid for process in working}
        for process in working:
            # One that a test has just killed may end meanwhile.
            with suppress(psutil.NoSuchProcess):
                if process.ppid() not in others:
                    return process
        return None


_OTHER_SERVERS = {"DATABASE_URL", "REDIS_URL", "MIGRATION_SERVICE_SECRET_KEY", "MIGRATION_SERVICE_HOME"}


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return every live process that works in `folder` or below."""
    found = []
    for process in psutil.process_iter():
        try:
            works_there = Path(process.cwd()).is_relative_to(folder.resolve())
            if works_there and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
