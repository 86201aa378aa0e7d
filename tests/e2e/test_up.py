"""`migration-service up` as a person runs it: the first time, again, after a crash, and to its end."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import requests

from drill.scene import Scene
from migration_service.config import Settings, load_saved_settings
from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.ports import random_free_port
from support.servers import RunningService, processes_in, temporary_folder, wait_until

pytestmark = pytest.mark.long

NAMES = ("postgres", "valkey", "interactive", "background", "flower", "web")
SMALL = ("--web-workers", "1", "--interactive-workers", "1", "--batch-workers", "1")


@pytest.fixture
def home() -> Iterator[Path]:
    folder = temporary_folder()
    yield folder / "home"
    shutil.rmtree(folder)


def test_an_ordinary_user_migrates_the_sample_book_once_and_it_stays_after_a_crash(
    home: Path,
) -> None:
    home.parent.chmod(0o777)
    start = partial(RunningService, home, "--sample", "5", *SMALL, prefix=ordinary_user())
    with taken_if_free(8000), taken_if_free(5555), start() as first:
        first.wait_until_serving()
        settings = load_saved_settings(home)
        for what, port, variable in (
            ("The web server", 8000, "MIGRATION_SERVICE_WEB_URL"),
            ("Flower", 5555, "FLOWER_URL"),
        ):
            used = settings[variable].rpartition(":")[2]
            assert f"Port {port} is taken: {what} uses {used}." in first.output
        assert home.stat().st_uid == home.joinpath("postgres").stat().st_uid
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert "Sample migration: 5 accounts" in first.output
        assert re.search(r"imported by a batch\W+4\b", first.output)
        for added in ("notes", "transactions", "statements", "payment instructions"):
            assert re.search(rf"{added} added\W+1\b", first.output), added
        own = ("export MIGRATION_CLIENT_URL=", str(Path(sys.executable).with_name("migration-client")))
        pasted = "\n".join(line for line in first.output.splitlines() if line.startswith(own))
        answer = subprocess.run(["/bin/sh", "-c", pasted], capture_output=True, text=True, check=True)
        assert re.match(r"status\s+COMPLETED\n", answer.stdout)
        victims = processes_in(home)
        first.process.kill()
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
        first.process.wait()
    with start() as after_a_crash:
        after_a_crash.wait_until_serving()
        assert "Sample migration" not in after_a_crash.output
        # The output of the tests is not a terminal, so it is treated as a log that others may read.
        key_file = home / "sample-api-key"
        assert str(key_file) in after_a_crash.output
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        password = load_saved_settings(home)["FLOWER_PASSWORD"]
        for credential in (key_file.read_text().strip(), password):
            assert credential
            assert credential not in after_a_crash.output
        with psycopg.connect(load_saved_settings(home)["DATABASE_URL"]) as connection:
            assert connection.execute("SELECT count(*) FROM account").fetchone() == (5,)
        assert all(map(after_a_crash.find, NAMES))
        assert after_a_crash.stop(signal.SIGTERM) == 0
        stops = re.findall(r"up +\| stopping ([^:\n]+)\n", after_a_crash.output)
        assert stops == ["web", "workers", "sandbox", "valkey", "postgres"]
        assert processes_in(home) == []


def test_a_chosen_port_that_is_taken_is_an_error(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = RunningService(home, "--port", str(port))
        assert service.process.wait(60) == 1
        assert f"Port {port} is taken" in service.output
    assert processes_in(home) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_started_as_root_only_the_servers_run_as_another_user_and_it_says_so(scene: Scene) -> None:
    account = ServerAccount.choose()
    assert f"runs as root, and only PostgreSQL and Valkey as '{account.name}'" in scene.service.output
    servers = [*processes_in(scene.home / "postgres"), *processes_in(scene.home / "valkey")]
    found = described(*servers)
    assert len(found) > 2
    owners = {owner for process in found for owner in (*process["uids"], *process["gids"])}
    assert owners == {account.user, account.group}


def described(*processes: psutil.Process) -> list[dict[str, Any]]:
    """Return the user, group and command line of each process, without those that have ended meanwhile."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found.append(process.as_dict(["uids", "gids", "cmdline"]))
    return [it for it in found if it["cmdline"] is not None]  # a zombie has none


def taken_if_free(port: int) -> socket.socket:
    """Let the port be taken within the `with` statement, by us or by another program."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", port))
        taken.listen()
    except OSError:
        pass
    return taken


def test_flower_requires_its_password(scene: Scene) -> None:
    settings = scene.settings
    workers = f"{settings['FLOWER_URL']}/workers"

    def listens() -> bool:
        with suppress(requests.ConnectionError):
            return bool(requests.get(workers, timeout=30).status_code)
        return False

    wait_until(listens, "Flower listens")
    assert requests.get(workers, timeout=30).status_code == 401
    login = (settings["FLOWER_USER"], settings["FLOWER_PASSWORD"])
    assert requests.get(workers, auth=login, timeout=30).ok


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else says what processes have in common")
def test_the_processes_of_the_web_server_have_what_they_load_in_common(scene: Scene) -> None:
    for process in processes_in(scene.home / "programs" / "web"):
        common = sum(it.shared_dirty for it in process.memory_maps())
        assert common > 30_000_000, f"{process}: {common} bytes"


def test_passwords_are_on_no_command_line(scene: Scene) -> None:
    command_lines = " ".join(
        word for process in described(*processes_in(scene.home)) for word in process["cmdline"]
    )
    assert "celery" in command_lines
    for secret in (scene.settings["FLOWER_PASSWORD"], scene.settings["MIGRATION_SERVICE_SECRET_KEY"]):
        assert secret not in command_lines


def test_other_servers_and_another_key_replace_those_of_the_folder(home: Path, migrated: Settings) -> None:
    own = {
        "DATABASE_URL": migrated.database_url,
        "MIGRATION_SERVICE_OWNER_DATABASE_URL": migrated.owner_database_url,
        "REDIS_URL": migrated.redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": "the key of an operator, of 32 letters",
    }
    # Another test, in another process of pytest, takes the usual ports.
    ports = ("--port", str(random_free_port()), "--flower-port", str(random_free_port()))
    with RunningService(home, "--sample", "0", *SMALL, *ports, environment=own) as service:
        service.wait_until_serving()
        settings = load_saved_settings(home)
        assert {name: settings[name] for name in own} == own
        assert service.find("postgres") is None
        assert service.find("valkey") is None
        service.stop(signal.SIGKILL)
        if sys.platform == "linux":
            wait_until(lambda: processes_in(home) == [], "nothing outlives a killed up")


def ordinary_user() -> tuple[str, ...]:
    """Start a command as `nobody` if we are root.

    Python and the environment may lie in a folder that only root can enter (`/root`). The command then runs
    in a user namespace, where we are called `nobody` and can use only our own files. If user namespaces are
    not available, it runs as a `nobody` that may pass through every folder.
    """
    if os.geteuid() != 0:
        return ()
    become = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups")
    namespace = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
    for prefix in (become, namespace):
        # It is started by a shell, because setpriv itself starts a program with the rights of root.
        attempt = [*prefix, "/bin/sh", "-c", '"$0" -c "import migration_service"', sys.executable]
        if subprocess.run(attempt, check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return prefix
    return (*become, "--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")
