"""What the doctor says of revisions, Redis, disks and statements, its bundle, and what a failover lost."""

import json
import shutil
import time
import zipfile
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url, text

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.db.needed_tables import NEEDED
from migration_service.db.revisions import upgrade
from migration_service.doctor import work_checks
from migration_service.doctor.bundle import hide_literals
from migration_service.doctor.diagnosis import ServiceParts
from migration_service.doctor.examination import check_disks, check_redis, check_revisions
from migration_service.doctor.work_checks import check_statements
from migration_service.services.processing.slots import LiveAttempt, Slots
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service.tasks.names import KEY_PREFIX
from migration_service_local.servers.postgres import DATABASE
from support.commands import Run
from support.servers import EmbeddedServers


@pytest.fixture
def parts(migrated: Settings) -> Iterator[ServiceParts]:
    parts = ServiceParts(migrated, create_celery)
    yield parts
    parts.sessions.kw["bind"].dispose()
    parts.redis.connection_pool.disconnect()


def test_tables_that_cannot_be_upgraded_have_another_advice(
    migrated: Settings, embedded_servers: EmbeddedServers
) -> None:
    with embedded_servers.new_database() as (_, owner_url):
        upgrade(owner_url)
        parts = ServiceParts(replace(migrated, database_url=owner_url), create_celery)
        with parts.sessions.begin() as session:
            session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        (found,) = check_revisions(parts)
        parts.sessions.kw["bind"].dispose()
    assert found.verdict == "wrong"
    assert found.seen == f"the tables are at revision 9999, not {NEEDED}"
    assert "the version that made that revision" in found.advice


def test_a_full_redis_and_a_redis_that_evicts_are_lines(parts: ServiceParts) -> None:
    assert [it.verdict for it in check_redis(parts)] == ["ok"]
    try:
        parts.redis.config_set("maxmemory", 1_000_000)
        (full,) = check_redis(parts)
        parts.redis.config_set("maxmemory-policy", "allkeys-lru")
        (evicting,) = check_redis(parts)
    finally:
        parts.redis.config_set("maxmemory", 0)
        parts.redis.config_set("maxmemory-policy", "noeviction")
    assert "it is full" in full.seen
    assert full.verdict == "wrong"
    assert "allkeys-lru" in evicting.seen
    assert evicting.verdict == "warning"


@pytest.mark.parametrize(
    ("held", "limit", "said"),
    [
        (5, None, [("ok", "")]),
        (6, None, [("warning", "The sweep frees")]),
        (5, 5, [("warning", "Further requests")]),
        (5, 4, [("warning", "The limit was lowered")]),
        (2, 1, [("warning", "The limit was lowered"), ("warning", "Set a limit of 2")]),
    ],
)
def test_slots_without_attempts_and_a_limit_that_was_lowered_are_lines(
    parts: ServiceParts, monkeypatch: pytest.MonkeyPatch, held: int, limit: int | None, said: list[Any]
) -> None:
    monkeypatch.setattr(work_checks, "_PAUSE_SECONDS", 0.0)
    with parts.sessions.begin() as session:
        set_concurrency_limit(session, limit)
    Slots(parts.redis).reconcile([LiveAttempt(str(it), owner=1) for it in range(held)])
    found = list(work_checks.check_slots(parts))
    assert [
        (it.verdict, it.advice[: len(advice)]) for it, (_, advice) in zip(found, said, strict=True)
    ] == said
    limited = "no limit" if limit is None else f"limit {limit}"
    assert found[0].seen.startswith(f"{held} held, attempts in progress: 0, {limited}")


@pytest.mark.parametrize(("seconds", "verdict"), [(60.0, "ok"), (60.1, "warning")])
def test_a_transaction_that_holds_events_back_for_a_minute_is_a_line(
    parts: ServiceParts, monkeypatch: pytest.MonkeyPatch, seconds: float, verdict: str
) -> None:
    holder = SimpleNamespace(seconds=seconds, name="session 1", end_with="SELECT 1")
    monkeypatch.setattr(work_checks, "find_holder", lambda _session: holder)
    assert [it.verdict for it in work_checks.check_events(parts)] == [verdict]


@pytest.mark.parametrize(
    ("seconds", "is_sent", "said"),
    [
        (25, False, [("ok", "the sweep ran")]),
        (35, False, [("wrong", "the last sweep was")]),
        (35, True, [("ok", "sends messages"), ("wrong", "the last sweep was")]),
    ],
)
def test_a_beat_that_sends_nothing_and_a_worker_that_takes_nothing_are_told_apart(
    parts: ServiceParts, monkeypatch: pytest.MonkeyPatch, seconds: int, *, is_sent: bool, said: list[Any]
) -> None:
    queue = f"{KEY_PREFIX}maintenance"
    parts.redis.lpush(queue, "earlier")

    def arrive(_seconds: float) -> None:
        if is_sent:
            parts.redis.lpush(queue, "later")

    monkeypatch.setattr(time, "sleep", arrive)
    Slots(parts.redis).reconcile([])
    parts.redis.hincrby("migration:slots:state", "reconciled_at", -seconds * 1_000)
    found = list(work_checks.check_beat(parts))
    assert [(it.verdict, it.seen[: len(seen)]) for it, (_, seen) in zip(found, said, strict=True)] == said


@pytest.mark.parametrize(("processes", "said"), [(2, []), (3, ["warning"])])
def test_more_processes_of_batches_than_an_organisation_has_chunks_are_a_line(
    parts: ServiceParts, monkeypatch: pytest.MonkeyPatch, processes: int, said: list[str]
) -> None:
    answers = SimpleNamespace(
        active_queues=lambda: {"a": [{"name": "batch"}], "b": [{"name": "vendors"}]},
        stats=lambda: {it: {"pool": {"max-concurrency": processes}} for it in "ab"},
    )
    monkeypatch.setattr(parts.celery.control, "inspect", lambda **_options: answers)
    monkeypatch.setattr(parts, "settings", replace(parts.settings, batch_chunks_in_flight=2))
    found = [it for it in work_checks.check_workers(parts) if it.part == "queue batch"]
    assert [it.verdict for it in found] == ["ok", *said]
    assert found[-1].advice == (
        "Set MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT to 6 for all workers." if said else ""
    )


def test_disks_that_are_nearly_full_or_full_are_lines(
    parts: ServiceParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdicts(free: int) -> dict[str, str]:
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(total=100, free=free))
        return {it.part: it.verdict for it in check_disks(parts)}

    assert verdicts(free=11) == {"disk data": "ok", "disk uploads": "ok"}
    assert verdicts(free=9) == {"disk data": "warning", "disk uploads": "warning"}
    assert verdicts(free=4) == {"disk data": "wrong", "disk uploads": "wrong"}


def test_a_slow_statement_is_named_if_postgresql_counts_them(
    parts: ServiceParts, prepared_servers: Path, migrated: Settings
) -> None:
    assert [(it.verdict, it.seen[:12]) for it in check_statements(parts)] == [("ok", "not measured")]
    servers = EmbeddedServers.copy_of(prepared_servers)
    with (servers.home.path / "postgres" / "data" / "postgresql.conf").open("a") as file:
        file.write("shared_preload_libraries = 'pg_stat_statements'\n")
    with servers:
        counting = ServiceParts(replace(migrated, database_url=servers.database_url), create_celery)
        with servers.postgres.connect_as_superuser(DATABASE) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        assert [it.verdict for it in check_statements(counting)] == ["ok"]
        with counting.sessions.begin() as session:
            session.execute(text("SELECT count(*), pg_sleep(1.1) FROM organisation WHERE name = 'secret'"))
        [found] = check_statements(counting)
        counting.sessions.kw["bind"].dispose()
    assert found.verdict == "warning"
    assert "at each of 1 calls: SELECT count(*), pg_sleep($1) FROM organisation WHERE name = $2" in found.seen


PERSON = "Wilhelmina Bundle"


def test_a_bundle_has_what_helps_and_no_secret_and_no_value(
    run: Run, migrated: Settings, tmp_path: Path
) -> None:
    log = tmp_path / "web.log"
    urls = (migrated.database_url, migrated.owner_database_url, migrated.redis_url)
    passwords = [str(make_url(it).password) for it in urls]
    logged = " ".join([migrated.secret_key, *passwords])
    log.write_text("".join(f"line {number}\n" for number in range(6_000)) + f"keys {logged}\n")
    with log.open("a") as file:
        file.write("550 <Jan.Jansen@klant.example> is unknown to batch@host.example\n")
    target = tmp_path / "bundle.zip"
    with psycopg.connect(migrated.database_url) as busy:
        busy.execute(f"SELECT '{PERSON}', 19810203".encode())
        owner = {"MIGRATION_SERVICE_OWNER_DATABASE_URL": migrated.owner_database_url}
        result = run("doctor", "--bundle", str(target), "--log", str(log), **owner)
    assert result.exit_code in {0, 1}, result.stderr
    assert target.stat().st_mode & 0o077 == 0
    with zipfile.ZipFile(target) as archive:
        read = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {"checks.ndjson", "settings.json", "versions.json", "queues.json", "activity.ndjson"} <= set(read)
    checks = [json.loads(line) for line in read["checks.ndjson"].splitlines()]
    assert {"settings", "database", "redis", "revisions"} <= {it["part"] for it in checks}
    settings = json.loads(read["settings.json"])
    assert settings["DATABASE_URL"] == settings["MIGRATION_SERVICE_SECRET_KEY"] == "set"
    assert settings["MIGRATION_SERVICE_LOG_LEVEL"] == "INFO"
    assert json.loads(read["queues.json"])["messages"].keys() >= {"interactive", "batch", "maintenance"}
    activity = [json.loads(line) for line in read["activity.ndjson"].splitlines()]
    assert "SELECT ?, ?" in [it.get("query") for it in activity]
    assert read["logs/web.log"].splitlines()[-3:] == [
        *("line 5999", "keys *** *** *** ***", "550 <***> is unknown to batch@host.example")
    ]
    everything = "".join(read.values())
    assert PERSON not in everything
    secrets = [getattr(migrated, it.name) for it in fields(migrated) if it.metadata.get("secret")]
    assert not [it for it in (*secrets, *passwords) if it and it in everything]


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SELECT 1 FROM a WHERE b = $1", "SELECT ? FROM a WHERE b = $?"),
        ("SELECT 'it''s', E'a\\'b', x", "SELECT ?, E?, x"),
        ("SELECT 'cut off", "SELECT ?"),
        ("DO $$ BEGIN 'x' END $$", "DO ?"),
        ("DO $tag$ secret", "DO ?"),
        ("SELECT b2b, 0612345678", "SELECT b2b, ?"),
    ],
)
def test_a_statement_is_shown_without_its_values(statement: str, shown: str) -> None:
    assert hide_literals(statement) == shown
