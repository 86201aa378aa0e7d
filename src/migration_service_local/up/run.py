"""`migration-service up`: the whole service on a machine with nothing installed."""

import http.client
import os
import subprocess
from contextlib import closing, suppress
from http import HTTPStatus

from migration_service_local.console import Output
from migration_service_local.errors import StartError
from migration_service_local.servers.home import Home
from migration_service_local.servers.ports import LOOPBACK, Ports
from migration_service_local.servers.postgres import Postgres
from migration_service_local.servers.process import Child, stop_children
from migration_service_local.servers.valkey import Valkey
from migration_service_local.up.options import DEFAULT_FLOWER_PORT, DEFAULT_WEB_PORT, UpOptions
from migration_service_local.up.programs import FLOWER_USER, Programs
from migration_service_local.up.supervisor import StopRequestedError, Supervisor


def run_up(options: UpOptions, output: Output) -> None:
    """Start everything, migrate the sample book, serve until a signal arrives, and stop everything.

    If something cannot start, stop everything and raise StartError.
    """
    home = Home(options.home)
    try:
        programs = Programs(home, options)
        with closing(Ports()) as ports, Supervisor(output) as supervisor, suppress(StopRequestedError):
            _start(options, home, ports, programs, supervisor)
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


def _start(options: UpOptions, home: Home, ports: Ports, programs: Programs, supervisor: Supervisor) -> None:
    # Missing programs and occupied ports are reported before anything is started.
    output = supervisor.output
    if home.account.switch:
        output.say(f"runs as root, and only PostgreSQL and Valkey as {home.account.name!r}")
    web_port = _choose_port("The web server", options.web_port, DEFAULT_WEB_PORT, ports, output)
    flower_port = _choose_port("Flower", options.flower_port, DEFAULT_FLOWER_PORT, ports, output)
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


def _choose_port(what: str, chosen: int | None, default: int, ports: Ports, output: Output) -> int:
    """Return the chosen port, or else the default one or the next free one."""
    if chosen is not None:
        if not ports.take(chosen):
            raise StartError(
                f"Port {chosen} is taken: choose another one, or omit the option to use a free port."
            )
        return chosen
    port = ports.take_next(default)
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
