"""The operators' commands, with `--json` and for people, and their exit statuses after errors."""

import platform
import secrets
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import pytest
from click.testing import CliRunner
from sqlalchemy import delete, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.cli import COMMANDS, main
from migration_service.cli.session import CannotRunError, open_session
from migration_service.config import Settings
from migration_service.db.needed_tables import NEEDED
from migration_service.models import ImportSupplier, OperationsTeam
from support.commands import Run
from support.factories import Customer

_WAITING = text("""
    SELECT FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND application_name = 'migration-command'
      AND datname = current_database()
""")


@pytest.mark.parametrize(
    "command",
    [
        ("suppliers", "set-status", "{supplier}", "ongoing"),
        ("suppliers", "rename", "{supplier}", "{supplier} NEW"),
        ("suppliers", "remove", "{supplier}"),
        ("accounts", "skip", "{supplier}", "1", "--reason", "Closed."),
        ("teams", "rename", "{team}", "{team} NEW"),
        ("teams", "remove", "{team}"),
    ],
)
def test_what_is_removed_while_a_command_waits_for_it_is_told_in_a_sentence(
    run: Run, customer: Customer, sessions: sessionmaker[Session], command: tuple[str, ...]
) -> None:
    names = {"supplier": f"GONE {secrets.token_hex(4)}", "team": f"Gone {secrets.token_hex(4)}"}
    assert (
        run("suppliers", "create", names["supplier"], "--organisation", customer.organisation).exit_code == 0
    )
    assert run("suppliers", "set-status", names["supplier"], "complete").exit_code == 0
    assert run("teams", "create", names["team"]).exit_code == 0
    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            session.execute(delete(ImportSupplier).where(ImportSupplier.code == names["supplier"]))
            session.execute(delete(OperationsTeam).where(OperationsTeam.name == names["team"]))
            running = pool.submit(run, *(it.format(**names) for it in command))
            with sessions.begin() as observer:
                while not running.done() and observer.execute(_WAITING).one_or_none() is None:
                    observer.execute(text("SELECT pg_stat_clear_snapshot(), pg_sleep(0.02)"))
        result = running.result()
    assert result.exit_code == 1
    assert "does not exist" in result.stderr
    assert "SQLSTATE" not in result.output


def test_an_error_of_the_database_is_one_line_and_only_a_missing_table_is_told_as_one(
    migrated: Settings,
) -> None:
    stop = "DO $$ BEGIN RAISE E'stopped\\nfor good' USING ERRCODE = 'query_canceled'; END $$"
    with pytest.raises(CannotRunError, match=r"reports: stopped\Z"), open_session(migrated) as session:
        session.execute(text(stop))
    with pytest.raises(ProgrammingError, match="nothing"), open_session(migrated) as session:
        session.execute(text("SELECT nothing"))


def test_a_database_without_the_tables_is_reported(run: Run, migrated: Settings) -> None:
    place, _, _ = migrated.database_url.rpartition("/")
    result = run("teams", "list", DATABASE_URL=f"{place}/postgres")
    assert result.exit_code == 2
    assert "does not have the service's tables" in result.stderr


def test_the_list_of_commands_has_the_first_line_of_each_help(run: Run) -> None:
    context = main.make_context("migration-service", ["limit", "show"])
    for name, (_place, line) in COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert (command.help or "").split("\n")[0] == line
        assert name in run("--help").stdout
    assert main.get_command(context, "nothing") is None
    assert run("nothing").exit_code == 2


def test_the_version_is_shown_without_settings() -> None:
    result = CliRunner(env={"DATABASE_URL": "", "MIGRATION_SERVICE_HOME": "/nowhere"}).invoke(
        main, ["--version"]
    )
    assert result.exit_code == 0
    assert result.stdout == (
        f"migration-service {version('migration-service')}, newest revision {NEEDED}, "
        f"Python {platform.python_version()}\n"
    )
