"""The roles and secrets of docker-compose.yml. The script that creates the roles is run."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from migration_service.db.revisions import upgrade
from servers import EmbeddedServers

ROOT = Path(__file__).resolve().parents[3]
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
    ran = subprocess.run(
        ["/bin/sh", str(SCRIPT)], env=environment | PASSWORDS, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_the_script_creates_both_roles_and_hands_over_the_tables_of_an_earlier_version(
    servers: EmbeddedServers,
) -> None:
    superuser = servers.home.secret("postgres_password")
    with psycopg.connect(
        f"postgresql://postgres:{superuser}@127.0.0.1:{servers.postgres.port}/postgres", autocommit=True
    ) as connection:
        connection.execute("CREATE DATABASE migration")
    address = f"postgresql://{{}}@127.0.0.1:{servers.postgres.port}/migration"
    upgrade(address.format(f"postgres:{superuser}"))  # created by the superuser, as in earlier versions
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
    known = _secrets_of(_services())
    database = {"SERVICE_PASSWORD", "VALKEY_PASSWORD"}
    assert known == {
        "postgres": {"POSTGRES_PASSWORD", "OWNER_PASSWORD", "SERVICE_PASSWORD"},
        "valkey": {"VALKEY_PASSWORD"},
        "revisions": {"OWNER_PASSWORD", "SERVICE_PASSWORD"},
        "web": database | {"MIGRATION_SERVICE_SECRET_KEY", "MIGRATION_SERVICE_METRICS_TOKEN"},
        "worker": database,
        "worker-batch": database,
        "worker-vendors": database,
        "worker-maintenance": database,
        "beat": {"VALKEY_PASSWORD"},
        "flower": {"VALKEY_PASSWORD", "FLOWER_PASSWORD"},
    }


def test_web_can_be_limited_to_its_own_host_names() -> None:
    environment = _services()["web"]["environment"]
    assert isinstance(environment, dict)
    assert environment["MIGRATION_SERVICE_ALLOWED_HOSTS"] == "${MIGRATION_SERVICE_ALLOWED_HOSTS:-}"


def test_every_container_is_restricted() -> None:
    for name, service in _services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_workers_of_batches_get_less_of_the_processors_than_all_others() -> None:
    given = {name: service.get("cpu_shares") for name, service in _services().items()}
    assert given.pop("worker-batch") == 110
    assert set(given.values()) == {None}


def _services() -> dict[str, dict[str, object]]:
    yaml = pytest.importorskip("yaml")
    services: dict[str, dict[str, object]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
        "services"
    ]
    return services


def _secrets_of(services: dict[str, dict[str, object]]) -> dict[str, set[str]]:
    secret = re.compile(r"\$\{?([A-Z_]*(?:PASSWORD|SECRET_KEY|TOKEN))\b")
    return {name: set(secret.findall(str(service["environment"]))) for name, service in services.items()}


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
