"""`migration-service up` as a person runs it: from nothing, again, after a crash, and to its end."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest
import requests

from migration_service.config import load_saved_settings
from migration_service.embedded.ports import random_free_port
from servers import RunningService, processes_in, temporary_folder, wait_until

NAMES = ("postgres", "valkey", "interactive", "batch", "beat", "flower", "web")


@pytest.fixture
def home() -> Iterator[Path]:
    folder = temporary_folder()
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningService]:
    """One service for all tests that do not end it."""
    folder = temporary_folder()
    with RunningService(folder / "home", "--sample", "0", *free_ports()) as service:
        service.wait_until_serving()
        yield service
    shutil.rmtree(folder)


@pytest.fixture
def ports() -> tuple[str, ...]:
    return free_ports()


def free_ports() -> tuple[str, ...]:
    return ("--port", str(random_free_port()), "--flower-port", str(random_free_port()))


def count_accounts(home: Path) -> int:
    with psycopg.connect(load_saved_settings(home)["DATABASE_URL"]) as connection:
        row = connection.execute("SELECT count(*) FROM account").fetchone()
    assert row is not None
    return int(row[0])


def pasted_commands(output: str) -> str:
    return "\n".join(line for line in output.splitlines() if line.startswith(("TOKEN=", "curl ")))


def test_a_first_start_migrates_the_sample_book_and_a_second_one_goes_on_with_it(
    home: Path, ports: tuple[str, ...]
) -> None:
    with RunningService(home, "--sample", "5", *ports) as service:
        service.wait_until_serving()
        assert "Sample migration: 5 accounts" in service.output
        assert count_accounts(home) == 5
        answer = subprocess.run(
            ["/bin/sh", "-c", pasted_commands(service.output)], capture_output=True, text=True, check=True
        )
        assert json.loads(answer.stdout)["status"] == "COMPLETED"
        key = json.loads((home / "demo.json").read_text())["api_key"]
        assert service.stop() == 0

    with RunningService(home, "--sample", "5", *ports) as service:
        service.wait_until_serving()
        assert "Sample migration" not in service.output
        assert key in service.output
        assert count_accounts(home) == 5


def test_sigterm_stops_everything_in_order_and_leaves_nothing_behind(
    home: Path, ports: tuple[str, ...]
) -> None:
    with RunningService(home, "--sample", "0", *ports) as service:
        service.wait_until_serving()
        assert all(service.find(name) for name in NAMES)
        assert service.stop() == 0
        stops = [line for line in service.output.splitlines() if "| stopping " in line and ":" not in line]
    assert [stop.partition("stopping ")[2] for stop in stops] == [
        "web",
        "flower",
        "beat",
        "interactive, batch",
        "valkey",
        "postgres",
    ]
    assert processes_in(home) == []


def test_every_process_that_is_killed_comes_back(running: RunningService) -> None:
    killed = {}
    for name in NAMES:
        process = running.find(name)
        assert process is not None, name
        killed[name] = process.pid
        process.kill()
    for name, pid in killed.items():
        wait_until(partial(is_back, running, name, pid), f"{name} is back")
    live = f"{load_saved_settings(running.home)['MIGRATION_SERVICE_WEB_URL']}/health/live"
    wait_until(lambda: answers(live), "the web server answers again")
    wait_until(lambda: takes_connections(running.home), "PostgreSQL has replayed its log")
    assert count_accounts(running.home) == 0


def is_back(service: RunningService, name: str, killed: int) -> bool:
    process = service.find(name)
    return process is not None and process.pid != killed


def takes_connections(home: Path) -> bool:
    try:
        psycopg.connect(load_saved_settings(home)["DATABASE_URL"]).close()
    except psycopg.OperationalError:
        return False
    return True


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.ConnectionError:
        return False


@pytest.mark.parametrize("everything", [True, False], ids=["everything", "only up itself"])
def test_after_kill_9_nothing_is_left_running_and_the_next_start_goes_on_with_the_data(
    home: Path, ports: tuple[str, ...], everything: bool
) -> None:
    with RunningService(home, "--sample", "3", *ports) as service:
        service.wait_until_serving()
        victims = processes_in(home) if everything else []
        service.process.kill()
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
        service.process.wait()
        if sys.platform == "linux":
            wait_until(lambda: processes_in(home) == [], "everything gone")
    with RunningService(home, "--sample", "3", *ports) as service:
        service.wait_until_serving()
        assert count_accounts(home) == 3
        assert "Sample migration" not in service.output
        assert all(service.find(name) for name in NAMES)


def test_a_second_copy_on_the_same_folder_is_refused(running: RunningService) -> None:
    second = RunningService(running.home, "--sample", "0")
    assert second.process.wait(30) == 1
    assert f"running already on {running.home} (process {running.process.pid})" in second.output
    assert running.process.poll() is None


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = RunningService(home, "--port", str(port))
        assert service.process.wait(60) == 1
        assert f"Port {port} is taken" in service.output
    assert processes_in(home) == []


def test_default_ports_that_are_taken_are_replaced_and_it_is_said(home: Path) -> None:
    with taken_if_free(8000), taken_if_free(5555), RunningService(home, "--sample", "0") as service:
        service.wait_until_serving()
        settings = load_saved_settings(home)
        for what, port, variable in (
            ("The web server", 8000, "MIGRATION_SERVICE_WEB_URL"),
            ("Flower", 5555, "FLOWER_URL"),
        ):
            used = settings[variable].rpartition(":")[2]
            assert f"Port {port} is taken: {what} uses {used}." in service.output


def taken_if_free(port: int) -> socket.socket:
    """The port is taken within the `with` statement, by us or by whoever had it before."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", port))
        taken.listen()
    except OSError:
        pass
    return taken


def test_flower_wants_its_password(running: RunningService) -> None:
    settings = load_saved_settings(running.home)
    workers = f"{settings['FLOWER_URL']}/workers"
    wait_until(lambda: reachable(workers), "Flower listens")
    assert requests.get(workers, timeout=5).status_code == 401
    login = (settings["FLOWER_USER"], settings["FLOWER_PASSWORD"])
    assert requests.get(workers, auth=login, timeout=5).ok


def reachable(url: str) -> bool:
    try:
        requests.get(url, timeout=5)
    except requests.ConnectionError:
        return False
    return True


def test_settings_are_for_its_user_only_and_passwords_are_on_no_command_line(running: RunningService) -> None:
    settings = load_saved_settings(running.home)
    assert stat.S_IMODE((running.home / "settings.json").stat().st_mode) == 0o600
    command_lines = "".join(" ".join(process.cmdline()) for process in processes_in(running.home))
    for secret in (settings["FLOWER_PASSWORD"], settings["MIGRATION_SERVICE_SECRET_KEY"]):
        assert secret not in command_lines


def test_servers_of_ones_own_replace_the_embedded_ones(
    home: Path, ports: tuple[str, ...], database_url: str, redis_url: str
) -> None:
    own = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    with RunningService(home, "--sample", "0", *ports, environment=own) as service:
        service.wait_until_serving()
        settings = load_saved_settings(home)
        assert {name: settings[name] for name in own} == own
        assert service.find("postgres") is None
        assert service.find("valkey") is None


def test_it_runs_as_an_ordinary_user(home: Path, ports: tuple[str, ...]) -> None:
    home.parent.chmod(0o777)
    with RunningService(home, "--sample", "2", *ports, prefix=ordinary_user()) as service:
        service.wait_until_serving()
        assert home.stat().st_uid == home.joinpath("postgres").stat().st_uid != 0
        assert stat.S_IMODE(home.stat().st_mode) == 0o700


def ordinary_user() -> tuple[str, ...]:
    """Starts a command as `nobody` if we are root.

    Python and the environment may lie in a folder that only root can enter (`/root`); the command may
    then pass through folders all the same.
    """
    if os.geteuid() != 0:
        return ()
    become = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups")
    # By way of a shell: what setpriv itself starts is still reached with the rights of root.
    attempt = [*become, "/bin/sh", "-c", '"$0" -c ""', sys.executable]
    if subprocess.run(attempt, check=False, stderr=subprocess.DEVNULL).returncode == 0:
        return become
    return (*become, "--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")
