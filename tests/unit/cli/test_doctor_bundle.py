"""The bundle of the doctor: complete, and without anything that must not be sent on."""

import json
import zipfile
from dataclasses import fields
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from migration_service.config import Settings
from migration_service.doctor.bundle import hide_literals
from support.commands import Run

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
