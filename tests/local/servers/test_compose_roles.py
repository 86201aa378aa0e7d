"""docker-compose.yml: its roles, secrets, networks, limits and times. The scripts that it needs are run."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import psycopg
import pytest

from migration_service.config import Settings, variable_of
from migration_service.db.revisions import upgrade
from migration_service.tasks.names import QUEUES
from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.binaries import find_valkey
from support.deployment_files import (
    ROOT,
    SECRET_SETTINGS,
    options,
    seconds_of_web,
    seconds_of_workers,
    unknown_settings,
)
from support.servers import EmbeddedServers, ending_with_us

SCRIPT = ROOT / "deployment/postgres/roles.sh"
PASSWORDS = {"OWNER_PASSWORD": "owner's $1", "SERVICE_PASSWORD": 'the "service"'}


@pytest.fixture
def servers(prepared_servers: Path) -> Iterator[EmbeddedServers]:
    with EmbeddedServers.copy_of(prepared_servers) as running:
        yield running


def url(servers: EmbeddedServers, role: str, password: str) -> str:
    return psycopg.conninfo.make_conninfo(
        host="127.0.0.1", port=servers.postgres.port, user=role, password=password, dbname="migration"
    )


def run_script(servers: EmbeddedServers) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PGHOST": "127.0.0.1",
        "PGPORT": str(servers.postgres.port),
        "PGPASSWORD": servers.home.secret("postgres_password"),
        "POSTGRES_USER": "postgres",
        "POSTGRES_DB": "migration",
    }
    for name, password in PASSWORDS.items():
        (servers.folder / name).write_text(f"{password}\n")
        environment[f"{name}_FILE"] = str(servers.folder / name)
    ran = subprocess.run(
        ["/bin/sh", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_the_script_creates_both_roles(servers: EmbeddedServers) -> None:
    superuser = servers.home.secret("postgres_password")
    with psycopg.connect(
        f"postgresql://postgres:{superuser}@127.0.0.1:{servers.postgres.port}/postgres", autocommit=True
    ) as connection:
        connection.execute("CREATE DATABASE migration")
    address = f"postgresql://{{}}@127.0.0.1:{servers.postgres.port}/migration"
    run_script(servers)
    run_script(servers)  # again: nothing to do
    owner = address.format("migration_owner:owner's%20%241")
    upgrade(owner, runtime_role="migration_service")
    with psycopg.connect(url(servers, "migration_owner", PASSWORDS["OWNER_PASSWORD"])) as connection:
        owners = connection.execute(
            "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class "
            "WHERE relnamespace = 'public'::regnamespace"
        ).fetchall()
        assert owners == [("migration_owner",)]
    with psycopg.connect(
        url(servers, "migration_service", PASSWORDS["SERVICE_PASSWORD"]), autocommit=True
    ) as connection:
        connection.execute("INSERT INTO organisation (name) VALUES ('One')")
        for forbidden in ("CREATE TABLE own (value int)", "DROP TABLE account CASCADE"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden)


def test_each_container_gets_the_secrets_that_it_needs() -> None:
    worker = {"DATABASE_URL", "REDIS_URL", "MIGRATION_SERVICE_SMTP_URL"}
    given = {name: set(service["secrets"]) for name, service in _services().items()}
    assert given == {
        "postgres": {"POSTGRES_PASSWORD", "OWNER_PASSWORD", "SERVICE_PASSWORD"},
        "valkey": {"VALKEY_PASSWORD"},
        "revisions": {"DATABASE_URL", "MIGRATION_SERVICE_OWNER_DATABASE_URL"},
        "web": worker
        | {
            "MIGRATION_SERVICE_SECRET_KEY",
            "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS",
            "MIGRATION_SERVICE_METRICS_TOKEN",
            "MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS",
            "MIGRATION_SERVICE_CERTIFICATE_KEY",
        },
        "worker": worker,
        "worker-batch": worker | {"MIGRATION_SERVICE_CERTIFICATE_KEY"},
        "worker-vendors": worker,
        "worker-deliveries": worker | {"MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS"},
        "worker-maintenance": worker,
        "beat": {"REDIS_URL"},
        "flower": {"REDIS_URL", "FLOWER_PASSWORD"},
        "proxy": {"TLS_CERTIFICATE", "TLS_KEY"},
    }


def test_no_secret_is_in_an_environment_and_each_is_read_from_its_file() -> None:
    for name, service in _services().items():
        environment = service.get("environment", {})
        assert not {it for it in environment if it in SECRET_SETTINGS or it.endswith("PASSWORD")}, name
        files = {it.removesuffix("_FILE"): path for it, path in environment.items() if it.endswith("_FILE")}
        files.pop("MIGRATION_SERVICE_HEARTBEAT", None)
        assert files == {it: f"/run/secrets/{it}" for it in files}
        others = {"VALKEY_PASSWORD", "FLOWER_PASSWORD", "TLS_CERTIFICATE", "TLS_KEY"}
        assert set(files) == set(service["secrets"]) - others, name


def test_the_script_makes_every_secret_once(tmp_path: Path) -> None:
    made: dict[str, str] = {}
    for _ in range(2):
        subprocess.run(["/bin/sh", str(ROOT / "deployment/secrets.sh")], cwd=tmp_path, check=True)
        made = made or {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    assert {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()} == made
    assert set(made) == set(_compose()["secrets"])
    password = made["SERVICE_PASSWORD"].strip()
    assert made["DATABASE_URL"] == f"postgresql://migration_service:{password}@postgres:5432/migration\n"
    random = {"POSTGRES_PASSWORD", "OWNER_PASSWORD", "SERVICE_PASSWORD", "VALKEY_PASSWORD"}
    random |= {"FLOWER_PASSWORD", "MIGRATION_SERVICE_SECRET_KEY"}
    assert {len(made[name].strip()) for name in random} == {64}
    assert len({made[name] for name in random}) == len(random)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "secrets/DATABASE_URL").stat().st_mode & 0o777 == 0o444


def test_valkey_saves_its_data_when_its_container_is_stopped(tmp_path: Path) -> None:
    program = find_valkey(ServerAccount.choose(), tmp_path)
    (tmp_path / "valkey-server").symlink_to(program)
    (tmp_path / "VALKEY_PASSWORD").write_text("secret\n")
    command = _services()["valkey"]["command"][2].replace("$$", "$").replace("/run/secrets", str(tmp_path))
    command = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", command).replace("/data", str(tmp_path))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    listening = f"valkey-server - --port 0 --unixsocket {tmp_path}/socket"
    arguments = ending_with_us("sh", "-c", command.replace("valkey-server -", listening))
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout)
        process.terminate()
        assert "bye bye" in process.stdout.read()
    assert process.returncode == 0


def test_beat_and_flower_have_no_way_to_the_database() -> None:
    reaching = {name for name, service in _services().items() if "database" in service["networks"]}
    assert reaching == set(_services()) - {"valkey", "beat", "flower", "proxy"}
    reaching = {name for name, service in _services().items() if "broker" in service["networks"]}
    assert reaching == set(_services()) - {"postgres", "revisions", "proxy"}


def test_every_container_has_limits_of_memory_processes_and_log() -> None:
    for name, service in _services().items():
        assert service["mem_limit"], name
        assert service["pids_limit"] >= 64, name
        assert set(service["logging"]["options"]) == {"max-size", "max-file"}, name


def test_a_container_has_longer_to_end_than_its_process_takes() -> None:
    services = _services()
    assert int(services["web"]["stop_grace_period"].removesuffix("s")) > seconds_of_web() + 5
    for name in services:
        if name.startswith("worker"):
            grace = int(services[name]["stop_grace_period"].removesuffix("s"))
            assert grace > seconds_of_workers() + 5, name


def test_each_queue_has_a_worker() -> None:
    commands = [" ".join(service.get("command", ())) for service in _services().values()]
    assert sorted(queue for command in commands for queue in options(command, "queues")) == sorted(QUEUES)


def test_the_containers_keep_data_as_long_as_the_service_does_by_default() -> None:
    defaults = {variable_of(it): it.default for it in fields(Settings) if it.name.endswith("_days")}
    environment = _services()["worker-maintenance"]["environment"]
    assert {name: environment.get(name) for name in defaults} == {
        name: f"${{{name}:-{days}}}" for name, days in defaults.items()
    }


def test_every_setting_that_a_file_names_exists() -> None:
    files = [ROOT / "docker-compose.yml", ROOT / ".env.example", *(ROOT / "deployment").rglob("*.*")]
    unknown = {name for file in files if file.is_file() for name in unknown_settings(file.read_text())}
    # Those of docker-compose.yml itself, and of the operators' command on a host.
    assert unknown == {"MIGRATION_SERVICE_IMAGE", "MIGRATION_SERVICE_SECRETS", "MIGRATION_SERVICE_RELEASE"}


def test_every_container_is_restricted() -> None:
    for name, service in _services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def _compose() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    read: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return read


def _services() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = _compose()["services"]
    return services


def test_the_context_of_the_image_has_every_file_that_is_copied_into_it() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert len(copied) > 5
    assert copied <= allowed
    assert all((ROOT / source).exists() for source in copied)
