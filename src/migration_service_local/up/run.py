"""`migration-service up`: the whole service on a machine with nothing installed."""

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import FrameType

from migration_service_local.console import LogPump, Output
from migration_service_local.errors import StartError
from migration_service_local.servers.home import Home
from migration_service_local.servers.ports import LOOPBACK, take_next_port, take_port
from migration_service_local.servers.postgres import Postgres
from migration_service_local.servers.process import Child, Program, stop_children
from migration_service_local.servers.valkey import Valkey
from migration_service_local.up.programs import FLOWER_USER, Programs, Scale

DEFAULT_WEB_PORT = 8000
DEFAULT_FLOWER_PORT = 5555
#: The pauses between two looks, while it starts and afterwards.
_TICK_SECONDS, _SERVING_TICK_SECONDS = 0.05, 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: After this many seconds a program counts as healthy, and its number of deaths starts again.
_HEALTHY_SECONDS = 20.0
#: The number of consecutive deaths after which the operator is warned.
_CRASH_LOOP = 3
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions(Scale):
    """The options of `up`. If a port is None, the default one is used, or the next free one."""

    home: Path
    sample: int
    web_port: int | None
    flower_port: int | None
    database_url: str | None
    redis_url: str | None
    secret_key: str | None


class StopRequestedError(Exception):
    """A signal arrived during the start."""


def pause_before_restart(deaths: int) -> float:
    """Return the seconds to wait after this many consecutive deaths: none at first, then 1, 2, 4 ... 30."""
    return 0.0 if deaths <= 1 else min(2.0 ** (deaths - 2), _LONGEST_PAUSE_SECONDS)


class _Watched:
    """A program, its child if it is running, and its consecutive deaths."""

    def __init__(self, program: Program, output: Output) -> None:
        self.program = program
        self.deaths = 0
        self.restart_at = 0.0
        self._output = output
        self.start()

    def start(self) -> None:
        self.started_at = time.monotonic()
        self.child = Child(self.program, subprocess.PIPE)
        if self.child.process.stdout is None:
            raise RuntimeError("a program without a pipe for its log")
        self.pump = LogPump(self.program.name, self.child.process.stdout, self._output)
        self.running = True

    def check(self) -> None:
        """Detect a death and schedule the restart, or restart the program if it is time."""
        now = time.monotonic()
        if self.running and self.child.has_ended():
            self.running = False
            self.pump.finish()
            self.deaths = 1 if now - self.started_at > _HEALTHY_SECONDS else self.deaths + 1
            pause = pause_before_restart(self.deaths)
            self.restart_at = now + pause
            self._report(pause)
        elif not self.running and now >= self.restart_at:
            self.start()

    def is_crash_looping(self) -> bool:
        return self.deaths >= _CRASH_LOOP and (
            not self.running or time.monotonic() - self.started_at < _HEALTHY_SECONDS
        )

    def _report(self, pause: float) -> None:
        ending = _describe_ending(self.child.process.returncode)
        again = f"in {pause:.0f} s" if pause else "at once"
        if self.deaths < _CRASH_LOOP:
            self._output.say(f"{self.program.name} {ending}. It is restarted {again}.")
            return
        self._output.alarm(
            f"{self.program.name} keeps dying: {self.deaths} times in a row",
            [f"It {ending}, and is restarted {again}. Its last lines:", "", *self.pump.last_lines],
        )


@dataclass(frozen=True, slots=True)
class _Group:
    members: list[_Watched]
    server: bool


def _describe_ending(returncode: int) -> str:
    if returncode < 0:
        return f"was killed by {signal.Signals(-returncode).name}"
    return f"ended with exit status {returncode}"


class Supervisor(AbstractContextManager["Supervisor"]):
    """Runs programs in groups: started in order, stopped in the opposite order.

    Use it in a `with` statement of the main thread. Within it, SIGINT, SIGTERM and SIGHUP only request the
    stop (`stopping`). At the end everything is stopped, even after an exception. After a second signal the
    programs are killed, but the servers are still stopped cleanly.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self._groups: list[_Group] = []
        self._signals = 0

    def __enter__(self) -> "Supervisor":
        self._handlers = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._stop_everything()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    @property
    def stopping(self) -> bool:
        """Return True if a signal requested the stop."""
        return self._signals > 0

    def start(self, *programs: Program, server: bool = False) -> None:
        """Start a group of programs, which will be stopped together. A `server` is never killed."""
        group = _Group([], server)
        self._groups.append(group)
        for program in programs:
            group.members.append(_Watched(program, self.output))

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Keep everything running until `until` returns True, or a signal arrives."""
        while not self.stopping and not until():
            self._look()
            time.sleep(_SERVING_TICK_SECONDS)

    def run_until_ready(self, is_ready: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
        """Wait for the start of `what`.

        Raise StartError if it takes too long or a program keeps dying, and StopRequestedError after a signal.
        """
        deadline = time.monotonic() + seconds
        while not is_ready():
            if self.stopping:
                raise StopRequestedError
            self._look()
            for watched in self._all():
                if watched.is_crash_looping():
                    raise StartError(f"{watched.program.name} does not start; its last lines are above.")
            if time.monotonic() > deadline:
                raise StartError(f"{what} did not become ready within {seconds:.0f} seconds.")
            time.sleep(_TICK_SECONDS)

    def _all(self) -> list[_Watched]:
        return [watched for group in self._groups for watched in group.members]

    def _look(self) -> None:
        for watched in self._all():
            watched.check()

    def _stop_everything(self) -> None:
        while self._groups:
            group = self._groups.pop()
            running = [watched for watched in group.members if watched.running]
            if running:
                self.output.say(f"stopping {', '.join(watched.program.name for watched in running)}")
            hurry = (lambda: False) if group.server else (lambda: self._signals > 1)
            stop_children([watched.child for watched in running], hurry=hurry)
            for watched in running:
                watched.pump.finish()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1


def run_up(options: UpOptions, output: Output) -> None:
    """Start everything, migrate the sample book, serve until a signal arrives, and stop everything.

    If something cannot start, stop everything and raise StartError.
    """
    home = Home(options.home)
    try:
        programs = Programs(home, options)
        with Supervisor(output) as supervisor, suppress(StopRequestedError):
            _start(options, home, programs, supervisor)
            sample = Child(programs.demo("migrate", str(options.sample)), None)
            with output.hush():
                supervisor.run(sample.has_ended)
            supervisor.run()
            output.say(
                "stopping: running requests are finished first. Press Ctrl-C again to stop immediately"
            )
            stop_children([sample])
            if options.sample:
                Child(programs.demo("leave"), None).process.wait()
        output.say("stopped")
    finally:
        home.close()


def _start(options: UpOptions, home: Home, programs: Programs, supervisor: Supervisor) -> None:
    # Missing programs and occupied ports are reported before anything is started.
    output = supervisor.output
    if home.account.switch:
        output.say(f"runs as root, and only PostgreSQL and Valkey as {home.account.name!r}")
    web_port = _choose_port("The web server", options.web_port, DEFAULT_WEB_PORT, output)
    flower_port = _choose_port("Flower", options.flower_port, DEFAULT_FLOWER_PORT, output)
    postgres = None if options.database_url else Postgres(home)
    valkey = None if options.redis_url else Valkey(home)
    database_url, redis_url = str(options.database_url), str(options.redis_url)
    if postgres:
        database_url = _start_server(postgres, "PostgreSQL", supervisor)
        postgres.make_database()
    if valkey:
        redis_url = _start_server(valkey, "Valkey", supervisor)
    owner_url = postgres.owner_url if postgres else os.environ.get("MIGRATION_SERVICE_OWNER_DATABASE_URL", "")
    settings = {
        "DATABASE_URL": database_url,
        "MIGRATION_SERVICE_OWNER_DATABASE_URL": owner_url,
        "REDIS_URL": redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": options.secret_key or home.secret("secret_key"),
        "MIGRATION_SERVICE_CERTIFICATE_KEY": f"{home.secret('certificate_key')}=",
        "MIGRATION_SERVICE_WEB_URL": f"http://{LOOPBACK}:{web_port}",
        "FLOWER_URL": f"http://{LOOPBACK}:{flower_port}",
        "FLOWER_USER": FLOWER_USER,
        "FLOWER_PASSWORD": home.secret("flower_password"),
        "MIGRATION_SERVICE_CONSOLE": "on",
    }
    if options.sample:
        port = home.port("sandbox")
        settings["SANDBOX_VENDOR_URL"] = f"http://{LOOPBACK}:{port}"
        supervisor.start(programs.sandbox(port))
    home.write("settings.json", settings | _own_settings())
    preparing = Child(programs.demo("prepare"), subprocess.PIPE).process
    said, _ = preparing.communicate()
    if preparing.returncode:
        raise StartError(said.decode(errors="replace").strip())
    celery = (*programs.workers(), programs.beat(), programs.flower(flower_port))
    supervisor.start(programs.sharing(*celery))
    supervisor.start(programs.web(web_port))
    supervisor.run_until_ready(lambda: _answers(web_port), "The web server")


def _own_settings() -> dict[str, str]:
    """Return our environment's settings for commands that are started elsewhere."""
    variables = (
        "MIGRATION_SERVICE_DATABASE_POOLER",
        "MIGRATION_SERVICE_SMTP_URL",
        "MIGRATION_SERVICE_EMAIL_FROM",
        "MIGRATION_SERVICE_ALERT_EMAILS",
        "MIGRATION_SERVICE_UPLOAD_FOLDER",
    )
    return {variable: os.environ[variable] for variable in variables if variable in os.environ}


def _start_server(server: Postgres | Valkey, name: str, supervisor: Supervisor) -> str:
    supervisor.start(server.program(), server=True)
    supervisor.run_until_ready(server.is_ready, name)
    return server.url


def _choose_port(what: str, chosen: int | None, default: int, output: Output) -> int:
    """Return the chosen port, or else the default one or the next free one."""
    if chosen is not None:
        if not take_port(chosen):
            raise StartError(
                f"Port {chosen} is taken: choose another one, or omit the option to use a free port."
            )
        return chosen
    port = take_next_port(default)
    if port != default:
        output.say(f"Port {default} is taken: {what} uses {port}.")
    return port


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=1)
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status < HTTPStatus.INTERNAL_SERVER_ERROR
    except OSError:
        return False
    finally:
        connection.close()
