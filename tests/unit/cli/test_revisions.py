"""`migration-service revisions`."""

import json
from collections.abc import Iterator

import psycopg
import pytest
from click.testing import CliRunner

from migration_service.cli import main
from migration_service.db.needed_tables import NEEDED
from migration_service.db.revisions import CannotUpgradeError, upgrade
from support.servers import EmbeddedServers


@pytest.fixture
def environment(embedded_servers: EmbeddedServers) -> Iterator[dict[str, str]]:
    """A new database without tables."""
    with embedded_servers.new_database() as (database_url, owner_url):
        yield {
            "DATABASE_URL": database_url,
            "MIGRATION_SERVICE_OWNER_DATABASE_URL": owner_url,
            "REDIS_URL": embedded_servers.redis_url,
            "MIGRATION_SERVICE_SECRET_KEY": embedded_servers.home.secret("secret_key"),
        }


def test_upgrade_brings_empty_tables_to_the_newest_revision_once(environment: dict[str, str]) -> None:
    runner = CliRunner(env=environment)
    before = runner.invoke(main, ["revisions", "current", "--json"])
    assert (before.exit_code, json.loads(before.stdout)["current"]) == (1, None)
    first = runner.invoke(main, ["revisions", "upgrade", "--json"])
    assert json.loads(first.stdout) == {"before": None, "after": NEEDED}
    again = runner.invoke(main, ["revisions", "upgrade"])
    assert again.stdout == f"The tables are at revision {NEEDED} already.\n"
    after = runner.invoke(main, ["revisions", "current", "--json"])
    assert after.exit_code == 0
    assert json.loads(after.stdout) == {"current": NEEDED, "newest": NEEDED}


def test_upgrade_explains_what_to_do_if_the_role_may_not_change_tables(environment: dict[str, str]) -> None:
    runtime = environment | {"MIGRATION_SERVICE_OWNER_DATABASE_URL": ""}
    with psycopg.connect(environment["MIGRATION_SERVICE_OWNER_DATABASE_URL"]) as owner:
        owner.execute("DROP TABLE IF EXISTS alembic_version")
    result = CliRunner(env=runtime).invoke(main, ["revisions", "upgrade"])
    assert result.exit_code == 2
    assert "MIGRATION_SERVICE_OWNER_DATABASE_URL" in result.stderr


def test_tables_at_an_unknown_revision_are_left_as_they_are(environment: dict[str, str]) -> None:
    runner = CliRunner(env=environment)
    runner.invoke(main, ["revisions", "upgrade"])
    with psycopg.connect(environment["MIGRATION_SERVICE_OWNER_DATABASE_URL"]) as owner:
        owner.execute("UPDATE alembic_version SET version_num = '9999'")
    refused = runner.invoke(main, ["revisions", "upgrade"])
    assert refused.exit_code == 2
    assert "The tables are at revision 9999. Only the version that made that revision" in refused.stderr


def test_upgrade_reports_a_database_that_cannot_be_reached(environment: dict[str, str]) -> None:
    nobody_there = dict.fromkeys(environment, "postgresql://a:b@127.0.0.1:1/c")
    result = CliRunner(env=nobody_there).invoke(main, ["revisions", "upgrade"])
    assert result.exit_code == 2
    assert "cannot be reached, or not be written to, for 1 seconds" in result.stderr


def test_upgrade_says_that_there_is_no_server_that_can_be_written_to(environment: dict[str, str]) -> None:
    only_reads = f"{environment['DATABASE_URL']}?options=-c%20default_transaction_read_only%3Don"
    with pytest.raises(CannotUpgradeError, match="No PostgreSQL that can be written to answers within 1 sec"):
        upgrade(only_reads, pooler=True)
