"""What a load balancer and the doctor are told of PostgreSQL and Redis: away, without a standby, or full."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import psutil
import psycopg
import pytest
from flask import Flask
from flask.testing import FlaskClient
from redis import Redis
from sqlalchemy import text

from migration_service.blueprints.requests.resources import resources
from migration_service.celery_app import create_celery
from migration_service.cli.session import CommandConnection
from migration_service.config import Settings
from migration_service.db.engine import service_engine
from migration_service.db.revisions import upgrade
from migration_service.doctor.diagnosis import Diagnosis, ServiceParts
from migration_service.doctor.examination import check_database, examine
from migration_service_local.servers.postgres import DATABASE
from support.commands import Run
from support.factories import MakeClient
from support.servers import EmbeddedServers, wait_until

_READY = {"status": "ok", "database": "ok", "redis": "ok"}


def test_a_process_that_answers_is_alive(client: FlaskClient) -> None:
    answer = client.get("/health/live")
    assert (answer.status_code, answer.json) == (
        200,
        {"status": "ok", "version": version("migration-service")},
    )


def test_a_process_is_ready_without_redis(make_client: MakeClient, migrated: Settings) -> None:
    answer = make_client(replace(migrated, redis_url="redis://127.0.0.1:1/0")).get("/health/ready")
    assert (answer.status_code, answer.json) == (200, _READY | {"redis": "unavailable"})


def test_a_process_is_not_ready_without_a_database(make_client: MakeClient, migrated: Settings) -> None:
    nobody = "postgresql://nobody@127.0.0.1:1/none"
    answer = make_client(replace(migrated, database_url=nobody)).get("/health/ready")
    away = _READY | {"status": "away", "database": "unavailable"}
    assert (answer.status_code, answer.json) == (503, away)


def test_a_connection_to_a_server_that_only_reads_is_replaced(app: Flask, client: FlaskClient) -> None:
    with app.app_context(), resources().Session.kw["bind"].connect() as connection:
        connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
        connection.commit()
    assert client.get("/health/ready").json == _READY


def test_a_process_is_ready_only_if_the_tables_are_as_new_as_its_code(
    embedded_servers: EmbeddedServers, make_client: MakeClient, migrated: Settings
) -> None:
    with embedded_servers.new_database() as (database_url, owner_url):
        upgrade(owner_url, runtime_role=DATABASE)
        own = replace(migrated, database_url=database_url)
        client = make_client(own)
        expected = [
            ("0000", 503, "outdated"),
            ("9999", 200, "ok"),  # older code on newer tables
            ("0000", 200, "ok"),  # it asks until they were new enough once
        ]
        with psycopg.connect(owner_url, autocommit=True) as owner:
            for revision, status, database in expected:
                owner.execute("UPDATE alembic_version SET version_num = %s", [revision])
                ready = client.get("/health/ready")
                assert (ready.status_code, ready.json and ready.json["database"]) == (status, database), (
                    revision
                )
                assert client.get("/health/pod").status_code == status


def test_a_pod_that_was_ready_stays_so_while_there_is_no_database(
    embedded_servers: EmbeddedServers, make_client: MakeClient, migrated: Settings
) -> None:
    nobody = make_client(replace(migrated, database_url="postgresql://nobody@127.0.0.1:1/none"))
    assert nobody.get("/health/pod").status_code == 503, "it has never seen the tables"
    with embedded_servers.new_database() as (database_url, owner_url):
        upgrade(owner_url, runtime_role=DATABASE)
        client = make_client(replace(migrated, database_url=database_url))
        assert client.get("/health/pod").json == {"status": "ok"}
    assert client.get("/health/ready").status_code == 503
    assert client.get("/health/pod").status_code == 200


# Commits of autovacuum wait, too.
_HANGING = """
    SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'
"""


@pytest.fixture(scope="module")
def spoilt_servers(prepared_servers: Path) -> Iterator[EmbeddedServers]:
    with EmbeddedServers.copy_of(prepared_servers) as servers:
        with servers.connect_as_superuser() as admin:
            admin.execute("ALTER DATABASE migration_service SET synchronous_commit = on")
        yield servers


@pytest.fixture
def servers(spoilt_servers: EmbeddedServers) -> Iterator[EmbeddedServers]:
    """Servers of these tests' own, whose commits wait for what PostgreSQL is told to wait for."""
    yield spoilt_servers
    with spoilt_servers.connect_as_superuser() as admin:
        wait_for_standby(admin, "")
        admin.execute("ALTER ROLE migration_service RESET search_path")


@pytest.fixture
def own_settings(settings: Settings, servers: EmbeddedServers) -> Settings:
    return replace(
        settings, home=servers.home.path, database_url=servers.database_url, redis_url=servers.redis_url
    )


@pytest.fixture
def parts(own_settings: Settings) -> Iterator[ServiceParts]:
    parts = ServiceParts(own_settings, create_celery)
    yield parts
    parts.sessions.kw["bind"].dispose()
    parts.redis.connection_pool.disconnect()


def wait_for_standby(admin: psycopg.Connection, names: str) -> None:
    """Let commits wait for a standby with this name, or for none."""
    admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'".encode())
    admin.execute("SELECT pg_reload_conf()")


def test_a_missing_standby_is_named_and_the_commit_that_tried_does_not_hang(
    servers: EmbeddedServers, parts: ServiceParts
) -> None:
    with servers.connect_as_superuser() as admin:
        (found,) = check_database(parts)
        assert (found.verdict, found.seen.endswith("answers, writes and commits")) == ("ok", True)
        wait_for_standby(admin, "nobody")
        (found,) = check_database(parts)
        assert found.verdict == "wrong"
        assert "synchronous standby" in found.seen
        assert "synchronous_standby_names = 'nobody'" in found.seen
        assert "Start the standby" in found.advice
        assert admin.execute(_HANGING).fetchone() == (0,)
        wait_for_standby(admin, "")
        assert [it.verdict for it in check_database(parts)] == ["ok"]


def test_a_command_says_that_the_database_does_not_commit(
    servers: EmbeddedServers, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CommandConnection, "commit_seconds", 1)
    with servers.connect_as_superuser() as admin:
        wait_for_standby(admin, "nobody")
        wait_until(lambda: admin.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",), "so")
        done = run("limit", "set", "7", DATABASE_URL=servers.database_url, REDIS_URL=servers.redis_url)
        wait_for_standby(admin, "")
    assert "did not commit within 1 seconds" in done.output
    assert done.exit_code == 2, done.output


def test_a_web_server_is_not_ready_while_commits_wait(
    servers: EmbeddedServers, own_settings: Settings, make_client: MakeClient
) -> None:
    client = make_client(own_settings)

    def is_ready() -> bool:
        answer = client.get("/health/ready")
        waits = _READY | {"status": "away", "database": "commits-wait"}
        assert (answer.status_code, answer.json) in [(200, _READY), (503, waits)]
        return answer.status_code == 200

    def part_is_up() -> bool:
        shown = client.get("/metrics", environ_overrides={"REMOTE_ADDR": "127.0.0.1"}).text
        assert 'migration_part_up{part="redis"} 1.0' in shown
        return 'migration_part_up{part="database"} 1.0' in shown

    with servers.connect_as_superuser() as admin:
        assert is_ready()
        wait_for_standby(admin, "nobody")
        wait_until(lambda: not is_ready(), "commits that wait are noticed")
        wait_until(lambda: not part_is_up(), "the alert's metric")
        wait_for_standby(admin, "")
        wait_until(is_ready, "commits that are made again are noticed")


def test_a_web_server_says_in_time_that_a_frozen_database_is_unavailable(
    servers: EmbeddedServers,
    own_settings: Settings,
    migrated: Settings,
    make_client: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = make_client(own_settings)
    assert client.get("/health/ready").status_code == 200
    postgres = psutil.Process(servers.children["postgres"].process.pid)
    frozen = [postgres, *postgres.children(recursive=True)]
    for process in frozen:
        process.suspend()
    try:
        for _ in range(2):
            answer = client.get("/health/ready")
            assert answer.json is not None
            assert (answer.status_code, answer.json["database"]) == (503, "unavailable")
        # Another server that writes is found, although a question still waits for the frozen one.
        with client.application.app_context():
            monkeypatch.setattr(
                resources().commits, "_make_engine", partial(service_engine, migrated, "migration-health")
            )
        wait_until(lambda: client.get("/health/ready").status_code == 200, "another server answers")
    finally:
        for process in frozen:
            process.resume()
    wait_until(lambda: client.get("/health/ready").status_code == 200, "the database answers again")


def test_a_replication_slot_that_nobody_reads_is_in_the_metrics_of_the_services_own_role(
    servers: EmbeddedServers, own_settings: Settings, make_client: MakeClient
) -> None:
    with servers.connect_as_superuser() as admin:
        admin.execute("SELECT pg_create_physical_replication_slot('backup', true)")
        admin.execute("SELECT pg_create_physical_replication_slot('passing', true, true)")
        admin.execute("SELECT pg_switch_wal()")
        client = make_client(own_settings)
        shown = client.get("/metrics", environ_overrides={"REMOTE_ADDR": "127.0.0.1"}).text
        admin.execute("SELECT pg_drop_replication_slot('backup')")
    assert 'migration_replication_slot_active{slot="backup"} 0.0' in shown
    assert "passing" not in shown, "one that ends with its session"
    (held,) = re.findall(
        r'^migration_replication_slot_held_bytes\{slot="backup"\} (.+)$', shown, re.MULTILINE
    )
    assert float(held) > 0


def advice_on(part: str, parts: ServiceParts) -> Diagnosis:
    """The first line of the doctor about this part."""
    return next(it for it in examine(parts) if it.part == part)


def test_a_full_disk_of_postgres_is_named(servers: EmbeddedServers, parts: ServiceParts) -> None:
    with psycopg.connect(servers.owner_url) as owner:
        # What PostgreSQL reports when it cannot extend a temporary file.
        owner.execute(
            "CREATE SCHEMA full_disk; GRANT USAGE ON SCHEMA full_disk TO migration_service; "
            "CREATE FUNCTION full_disk.generate_series(int, int) RETURNS SETOF int LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'could not write: No space left on device' USING ERRCODE = '53100'; END $$"
        )
    with servers.connect_as_superuser() as admin:
        admin.execute("ALTER ROLE migration_service SET search_path = full_disk, pg_catalog, public")
    found = advice_on("database", parts)
    assert "No space left" in found.seen
    assert found.verdict == "wrong"
    assert found.advice.startswith("Free disk space where PostgreSQL keeps its data")


def test_a_redis_that_cannot_write_to_its_disk_is_named(
    servers: EmbeddedServers, parts: ServiceParts
) -> None:
    with Redis.from_url(servers.redis_url) as admin:
        admin.config_set("save", "900 1")
        # It saves to a file of this name, which it cannot create.
        folder = Path(admin.config_get("dir")["dir"]) / admin.config_get("dbfilename")["dbfilename"]
        folder.unlink(missing_ok=True)
        folder.mkdir()
        admin.bgsave()
        wait_until(lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "err", "a save that fails")
        found = advice_on("redis", parts)
        admin.config_set("save", "")  # otherwise it does not end
    assert "MISCONF" in found.seen
    assert found.verdict == "wrong"
    assert found.advice.startswith("Free disk space where Redis keeps its data")
