"""What the doctor says of suppliers, batches, the limit, revisions, Redis and the disk."""

import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import func, make_url, text, update
from werkzeug.test import TestResponse

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.db.jobs import Progress
from migration_service.db.revisions import newest_revision, upgrade
from migration_service.doctor.bundle import hide_literals
from migration_service.doctor.diagnosis import ServiceParts
from migration_service.doctor.examination import check_disks, check_redis, check_revisions
from migration_service.doctor.work_checks import (
    check_batches,
    check_certificates,
    check_messages,
    check_slots,
    check_statements,
    check_stuck_attempts,
    check_suppliers,
)
from migration_service.models import (
    AlertEmail,
    Attempt,
    Batch,
    BatchChunk,
    Certificate,
    ImportSupplier,
    ServiceLimit,
)
from migration_service.services.certificates.making import certify_piece
from migration_service.services.processing.execution import perform_attempt
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from migration_service_local.servers.postgres import DATABASE
from support.batch_client import BatchClient
from support.commands import Run
from support.servers import EmbeddedServers
from support.supplier_client import API, SupplierClient


@pytest.fixture
def parts(migrated: Settings) -> Iterator[ServiceParts]:
    parts = ServiceParts(migrated, create_celery)
    yield parts
    parts.sessions.kw["bind"].dispose()
    parts.redis.connection_pool.disconnect()


def test_a_paused_supplier_is_reported_with_its_waiting_batches(
    parts: ServiceParts, supplier: SupplierClient, batches: BatchClient
) -> None:
    batches.start(supplier.accounts(1))
    paused = update(ImportSupplier).where(ImportSupplier.code == supplier.code)
    with supplier.Session.begin() as session:
        session.execute(paused.values(status=SupplierStatus.PAUSED))
    batches.dispatch()
    (found,) = [it for it in check_suppliers(parts) if supplier.code in it.seen]
    assert (found.verdict, found.seen) == (
        "warning",
        f"{supplier.code} is Paused, with 1 of its batches waiting",
    )
    with supplier.Session.begin() as session:
        session.execute(paused.values(status=SupplierStatus.ONGOING))
    assert not [it for it in check_suppliers(parts) if supplier.code in it.seen]


def test_an_attempt_that_should_have_been_given_up_is_reported(
    parts: ServiceParts, supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts(1)
    number = account["external_account_number"]
    assert supplier.stage(account).status_code == 201
    assert supplier.process(number).status_code == 202
    attempt_id = supplier.current_attempt(number)
    attempt = update(Attempt).where(Attempt.id == attempt_id)
    for age, seen in ((timedelta(days=9999), 1), (timedelta(0), 0)):
        with supplier.Session.begin() as session:
            session.execute(attempt.values(created_at=func.now() - age))
        found = [it for it in check_stuck_attempts(parts) if it.seen.startswith(f"{supplier.code} {number} ")]
        assert [it.verdict for it in found] == ["wrong"] * seen
    assert perform_attempt(worker_resources.Session, attempt_id)


def test_a_batch_that_is_stalled_or_whose_workers_starve_is_reported(
    parts: ServiceParts, supplier: SupplierClient, batches: BatchClient
) -> None:
    batch_id = batches.start(supplier.accounts(1))
    assert not [it for it in check_batches(parts) if batch_id in it.seen]
    with supplier.Session.begin() as session:
        old = func.now() - text("interval '5 minutes'")
        session.execute(
            update(Batch).where(Batch.id == UUID(batch_id)).values(created_at=old, runs_since=old)
        )
    (found,) = [it for it in check_batches(parts) if batch_id in it.seen]
    assert f"batches show {batch_id}" in found.advice
    assert found.verdict == "warning"
    with supplier.Session.begin() as session:
        worked = {"worked_at": func.now() - text("interval '9 seconds'"), "processor_wait": 0.8}
        session.execute(update(BatchChunk).where(BatchChunk.batch_id == UUID(batch_id)).values(worked))
    (found,) = [it for it in check_batches(parts) if batch_id in it.seen]
    assert "80%" in found.seen
    assert "busy with other work" in found.advice
    assert found.verdict == "warning"
    batches.work()
    assert not [it for it in check_batches(parts) if batch_id in it.seen]


def test_an_exhausted_limit_and_a_limit_of_1_are_reported(
    parts: ServiceParts, supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts(1)
    supplier.stage(account)
    supplier.process(account["external_account_number"])
    with parts.sessions.begin() as session:
        limit = session.get_one(ServiceLimit, 1)
        before = limit.concurrency_limit
        limit.concurrency_limit = max(1, worker_resources.slots.in_use())
        is_1 = limit.concurrency_limit == 1
    try:
        seen = [it.seen for it in check_slots(parts) if it.verdict == "warning"]
    finally:
        with parts.sessions.begin() as session:
            session.get_one(ServiceLimit, 1).concurrency_limit = before
    assert any("exhausted" in line for line in seen)
    assert any("compete" in line for line in seen) == is_1


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
    assert found.seen == f"the tables are at revision 9999, not {newest_revision()}"
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


def test_disks_that_are_nearly_full_or_full_are_lines(
    parts: ServiceParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdicts(free: int) -> dict[str, str]:
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(total=100, free=free))
        return {it.part: it.verdict for it in check_disks(parts)}

    assert verdicts(free=11) == {"disk data": "ok", "disk uploads": "ok"}
    assert verdicts(free=9) == {"disk data": "warning", "disk uploads": "warning"}
    assert verdicts(free=4) == {"disk data": "wrong", "disk uploads": "wrong"}


def test_messages_that_wait_for_the_mail_server_are_counted_with_the_reason(
    parts: ServiceParts, supplier: SupplierClient
) -> None:
    (found,) = check_messages(parts)
    assert found.verdict == "ok"
    with supplier.Session.begin() as session:
        for number in range(2):
            old = {"created_at": func.now() - text("interval '10 minutes'"), "error": "451 try later"}
            session.add(
                AlertEmail(event=str(number), recipient="lead@a.example", subject="s", body="b", **old)
            )
    (found,) = check_messages(parts)
    assert found.verdict == "warning"
    assert "2 messages wait for the mail server, the oldest for 60" in found.seen
    assert found.seen.endswith("451 try later")


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


def test_a_missing_key_for_certificates_is_reported_where_it_is_missing(
    parts: ServiceParts, supplier: SupplierClient, batches: BatchClient, migrated: Settings
) -> None:
    batches.run(supplier.accounts(1))
    supplier.reconcile()
    (found,) = check_certificates(parts)
    assert (found.verdict, len(found.seen.rpartition(" ")[2])) == ("ok", 64)
    answer = supplier.post("/certificates/", {"import_supplier": supplier.code})
    started = UUID(answer.get_json()["certificate_id"])
    with supplier.Session.begin() as session:
        session.get_one(Certificate, started).created_at = func.now() - timedelta(minutes=5)
        assert certify_piece(session, started, "") is Progress.WAITS
    (found,) = check_certificates(parts)
    assert (found.verdict, "queue batch" in found.advice) == ("warning", True)
    with supplier.Session.begin() as session:
        assert certify_piece(session, started, migrated.certificate_key) is Progress.OVER
    assert [it.verdict for it in check_certificates(parts)] == ["ok"]
    without = ServiceParts(replace(migrated, certificate_key=""), create_celery)
    try:
        (found,) = check_certificates(without)
    finally:
        without.sessions.kw["bind"].dispose()
    assert (found.verdict, "MIGRATION_SERVICE_CERTIFICATE_KEY" in found.seen) == ("warning", True)


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


STAGE = f"{API}/account-import-process/create-or-update/"
PROCESS = f"{API}/account-import-process/process/"


def line(route: str, status: int, request_id: str | None, **account: str) -> dict[str, Any]:
    """Return a line of an access log, or with an account one of a client's journal."""
    members = {"method": "POST", "route": route, "status": status, "request_id": request_id}
    return {"timestamp": "2027-03-01T10:00:00+00:00", **members, **account}


def line_of(answer: TestResponse, **account: str) -> dict[str, Any]:
    """Return the line of a request that was really answered."""
    return line(answer.request.path, answer.status_code, answer.headers["X-Request-ID"], **account)


def ask(run: Run, folder: Path, *lines: dict[str, Any]) -> tuple[int, list[Any]]:
    """Return the exit status of the command, and what it names."""
    file = folder / "answers"
    file.write_text("a line of another program\n" + "\n".join(map(json.dumps, lines)))
    result = run("doctor", "--json", "--after-failover", str(file))
    return result.exit_code, [json.loads(found) for found in result.stdout.splitlines()]


def test_what_is_there_is_not_named(run: Run, supplier: SupplierClient, tmp_path: Path) -> None:
    payload, other = supplier.accounts(2)
    number = str(payload["external_account_number"])
    account = {"import_supplier": supplier.code, "external_account_number": number}
    changed = payload | {"billing_address1": "Another street"}
    staged = [supplier.stage(it) for it in (payload, changed)]
    lines = [line_of(answer, **account) for answer in staged]
    lines += [line_of(supplier.process(number)), line_of(supplier.validate(other))]
    # The payload of the first one was replaced.
    lines += [line_of(answer) for answer in staged]
    refused = [line(STAGE, 400, "refused"), line(PROCESS, 503, "away"), line(f"{API}/batches/", 429, "later")]
    unread = [line("/v1/graphql/", 200, "login"), line(STAGE, 200, "again") | {"result": "UNCHANGED"}]
    assert ask(run, tmp_path, *lines, *refused, *unread) == (0, [])


def test_what_only_the_old_primary_had_is_named(run: Run, supplier: SupplierClient, tmp_path: Path) -> None:
    (payload,) = supplier.accounts(1)
    known = {
        "import_supplier": supplier.code,
        "external_account_number": str(payload["external_account_number"]),
    }
    staged = line_of(supplier.stage(payload), **known)
    gone = {"import_supplier": supplier.code, "external_account_number": "GONE"}
    status, found = ask(
        run,
        tmp_path,
        staged,
        line(STAGE, 200, "replaced", **known) | {"timestamp": "2027-03-01T10:00:01+00:00"},
        line(STAGE, 201, "first", **gone),
        line(PROCESS, 202, "accepted"),
        line(f"{API}/batches/", 202, "book"),
    )
    assert status == 1
    assert {(it["request_id"], it["acknowledged"], it["found"]) for it in found} == {
        ("first", "staged", "no such account"),
        ("replaced", "staged", "an earlier version"),
        ("accepted", f"{PROCESS} answered 202", "nothing of this request"),
        ("book", f"{API}/batches/ answered 202", "nothing of this request"),
    }
    told = line(PROCESS, 201, "created", service_account_number="A-1", **known)
    status, found = ask(run, tmp_path, staged, told)
    assert [(it["acknowledged"], it["found"]) for it in found] == [("created as A-1", "the account, PENDING")]
    assert found[0]["external_account_number"] == known["external_account_number"]
