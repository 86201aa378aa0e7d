"""Real servers and the real service, which tests can use, kill and start again."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil
import psycopg
from redis import Redis

from migration_service.db.revisions import upgrade
from migration_service_local.servers.home import Home
from migration_service_local.servers.postgres import DATABASE, Postgres
from migration_service_local.servers.process import Child, Program, stop_children, wait_until_ready
from migration_service_local.servers.valkey import Valkey

COMMAND = Path(sys.executable).with_name("migration-service")


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    """Return as soon as `condition` is true. Fail with `what` if that takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def temporary_folder() -> Path:
    """Return a new folder that other users can pass through, which pytest's folders do not allow."""
    folder = Path(tempfile.mkdtemp(prefix="migration-service-"))
    folder.chmod(0o711)
    return folder


# Triggers do not run: neither those that keep the audit nor those of foreign keys, nor those that notify. A
# test that left a transaction open is found at the row that it holds.
_REMEMBER = """
CREATE SCHEMA kept;
CREATE PROCEDURE kept.empty() LANGUAGE plpgsql AS $$
DECLARE
  name text;
  used boolean;
BEGIN
  SET LOCAL session_replication_role = replica;
  SET LOCAL lock_timeout = '10s';
  FOR name IN SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO used;
    CONTINUE WHEN NOT used;
    EXECUTE format('DELETE FROM public.%I', name);
    IF to_regclass(format('kept.%I', name)) IS NOT NULL THEN
      EXECUTE format('INSERT INTO public.%I SELECT * FROM kept.%I', name, name);
    END IF;
  END LOOP;
  PERFORM pg_notify('migration_reference', '');
END $$;
DO $$
DECLARE
  name text;
  used boolean;
BEGIN
  FOR name IN SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO used;
    IF used THEN EXECUTE format('CREATE TABLE kept.%I AS TABLE public.%I', name, name); END IF;
  END LOOP;
END $$;
"""


class EmbeddedServers:
    """PostgreSQL and Valkey in their own folder, on free ports. Use it in a `with` statement.

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
        with self.postgres._connect_as_superuser(DATABASE) as connection:
            connection.execute(_REMEMBER)

    def empty(self) -> None:
        """Delete what a test has left in the database and in Redis.

        Bindings of queues stay, as producers declare them once. No slot is held, and none has to be restored.
        """
        with self.postgres._connect_as_superuser(DATABASE) as connection:
            connection.execute("CALL kept.empty()")
        with Redis.from_url(self.redis_url) as redis:
            left = [key for key in redis.scan_iter() if not key.startswith(b"_kombu.binding.")]
            if left:
                redis.delete(*left)
            redis.hset(
                "migration:slots:state",
                mapping={"ready": 1, "admit_from": 0, "reconciled_at": redis.time()[0] * 1_000},
            )

    def connect_as_superuser(self) -> psycopg.Connection:
        """Yield a connection that may create databases and roles."""
        return self.postgres._connect_as_superuser()

    def __enter__(self) -> "EmbeddedServers":
        self.start("postgres")
        self.postgres.make_database()
        self.start("valkey")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
                [*prefix, str(COMMAND), "up", "--home", str(home), *arguments],
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
        self.stop()

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Wait until it printed `text`."""
        wait_until(
            lambda: text in self.output or self.process.poll() is not None, f"{text!r} printed", seconds
        )
        assert text in self.output, f"it ended with {self.process.returncode}:\n{self.output}"

    def wait_until_serving(self) -> None:
        """Wait until everything runs and the addresses are printed."""
        self.wait_for("serving; Ctrl-C stops everything")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(90)

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
