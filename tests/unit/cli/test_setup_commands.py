"""The operators' commands, with `--json` and for people, and their exit statuses after errors."""

import json
import platform
import secrets
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version

import pytest
from click.testing import CliRunner
from sqlalchemy import delete, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.cli import COMMANDS, main
from migration_service.config import Settings
from migration_service.db.revisions import newest_revision
from migration_service.errors import UnauthenticatedError
from migration_service.models import ImportSupplier, OperationsTeam
from migration_service.services.access.api_keys import authenticate_api_key
from support.commands import Run, json_of, lines_of
from support.factories import Customer
from support.imported_account import ImportedAccount
from support.undo_client import UndoClient

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


@pytest.mark.parametrize("group", ["organisations", "teams"])
def test_organisations_teams_and_suppliers_are_created_once_and_listed(run: Run, group: str) -> None:
    name = f"Noord [bold] {secrets.token_hex(4)}"
    assert json_of(run(group, "create", name, "--json"))["name"] == name
    again = run(group, "create", name)
    assert (again.exit_code, again.stdout) == (1, "")
    assert "already" in again.stderr
    assert [record["name"] for record in lines_of(run(group, "list", "--json"))].count(name) == 1
    assert name in run(group, "list").stdout


def test_a_key_is_issued_used_listed_and_revoked(
    run: Run, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    issued = json_of(run("api-keys", "issue", "--organisation", customer.organisation, "--json"))
    with sessions.begin() as session:
        assert authenticate_api_key(session, issued["api_key"]).organisation_id == customer.organisation_id
    listed = run("api-keys", "list", "--json")
    assert issued["api_key"] not in listed.stdout
    record = next(record for record in lines_of(listed) if record["prefix"] == issued["prefix"])
    assert record["organisation"] == customer.organisation
    assert record["last_used_at"].endswith("Z")
    assert record["revoked_at"] is None
    assert json_of(run("api-keys", "revoke", issued["prefix"], "--json"))["revoked_at"]
    with sessions.begin() as session, pytest.raises(UnauthenticatedError):
        authenticate_api_key(session, issued["api_key"])


def test_for_people_only_the_key_is_on_standard_output(
    run: Run, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    result = run("api-keys", "issue", "--organisation", customer.organisation)
    assert result.stderr == "The key is not shown again. Send it through a secure channel.\n"
    with sessions.begin() as session:
        authenticate_api_key(session, result.stdout.strip())


def test_a_supplier_is_created_shown_and_gets_another_status(run: Run, customer: Customer) -> None:
    code = f"NOORD {secrets.token_hex(4)}"
    options = ("--organisation", customer.organisation, "--document-root", "s3://b/f/", "--profile", "strict")
    made = json_of(run("suppliers", "create", code, *options, "--json"))
    assert made == json_of(run("suppliers", "show", code, "--json"))
    assert made | {"created_at": ""} == {
        "code": code,
        "organisation": customer.organisation,
        "status": "Ongoing",
        "profile": "strict",
        "time_zone": "Europe/Amsterdam",
        "document_root": "s3://b/f",
        "customer_emails": "off",
        "emails_at": "at_go_live",
        "emails_from": None,
        "live_at": None,
        "created_at": "",
    }
    for word, status in (("paused", "Paused"), ("COMPLETE", "Complete"), ("ongoing", "Ongoing")):
        assert json_of(run("suppliers", "set-status", code, word, "--json")) == {
            "code": code,
            "status": status,
        }
        assert json_of(run("suppliers", "show", code, "--json"))["status"] == status
    assert code in [record["code"] for record in lines_of(run("suppliers", "list", "--json"))]
    assert "strict" in run("suppliers", "show", code).stdout


def test_the_limit_is_shown_with_the_slots_in_use_and_set(
    run: Run, sessions: sessionmaker[Session], migrated: Settings
) -> None:
    assert json_of(run("limit", "set", "7", "--json")) == {"concurrency_limit": 7}
    assert json_of(run("limit", "show", "--json"))["concurrency_limit"] == 7
    assert json_of(run("limit", "set", "off", "--json")) == {"concurrency_limit": None}
    assert json_of(run("limit", "show", "--json"))["concurrency_limit"] is None
    assert "off" in run("limit", "show").stdout
    assert run("limit", "set", "250").stdout == "At most 250 accounts are processed at the same time.\n"
    changes = lines_of(run("audit", "list", "--action", "concurrency_limit.set", "--limit", "3", "--json"))
    assert [entry["subject"] for entry in changes] == ["250", "off", "7"]
    assert isinstance(json_of(run("limit", "show", "--json"))["slots_in_use"], int)


def test_the_limit_is_a_million_at_most(run: Run) -> None:
    assert json_of(run("limit", "set", "1000000", "--json")) == {"concurrency_limit": 1_000_000}
    assert run("limit", "set", "1000001", "--json").exit_code != 0
    assert json_of(run("limit", "show", "--json"))["concurrency_limit"] == 1_000_000


def test_the_limit_is_shown_while_redis_is_unavailable(run: Run) -> None:
    result = run("limit", "show", "--json", REDIS_URL="redis://127.0.0.1:1/0")
    assert json_of(result) == {"concurrency_limit": 250, "slots_in_use": None}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("api-keys", "issue", "--organisation", "nobody"), "Organisation 'nobody' does not exist."),
        (("api-keys", "revoke", "ami_x"), "No API key has this prefix."),
        (("suppliers", "create", "X", "--organisation", "nobody"), "Organisation 'nobody' does not exist."),
        (("suppliers", "show", "nothing"), "Import supplier 'nothing' does not exist."),
        (("suppliers", "set-status", "nothing", "paused"), "Import supplier 'nothing' does not exist."),
        (("organisations", "create", " "), "printable characters"),
        (("teams", "create", "Team\u2800"), "invisible"),
        (("suppliers", "create", "ZU\u0308RICH", "--organisation", "x"), "send composed characters"),
        (("suppliers", "create", "\uff11", "--organisation", "x"), "send '1' instead"),
    ],
)
def test_a_refused_command_explains_it_in_one_line_and_exits_with_1(
    run: Run, arguments: tuple[str, ...], sentence: str
) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"DATABASE_URL": ""},
            "DATABASE_URL is not set. REDIS_URL and MIGRATION_SERVICE_SECRET_KEY come from the environment",
        ),
        ({"DATABASE_URL": "nonsense"}, "DATABASE_URL is not an address"),
        ({"DATABASE_URL": "postgresql://a:b@127.0.0.1:x/c"}, "DATABASE_URL is not an address"),
        ({"DATABASE_URL": "postgresql://a:pass@127.0.0.1:1/c"}, "'c' at 127.0.0.1:1 cannot be reached"),
        ({"REDIS_URL": "nonsense"}, "REDIS_URL is not an address"),
        ({"MIGRATION_SERVICE_SECRET_KEY": "short"}, "MIGRATION_SERVICE_SECRET_KEY has 5 characters"),
    ],
)
def test_a_command_that_cannot_run_explains_it_in_one_line_and_exits_with_2(
    run: Run, changed: dict[str, str], sentence: str
) -> None:
    result = run("limit", "show", **changed)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert "pass@" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_database_without_the_tables_is_reported(run: Run, migrated: Settings) -> None:
    place, _, _ = migrated.database_url.rpartition("/")
    result = run("teams", "list", DATABASE_URL=f"{place}/postgres")
    assert result.exit_code == 2
    assert "does not have the service's tables" in result.stderr


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "²", "many", "9" * 5000])
def test_a_limit_is_a_number_or_off(run: Run, number: str) -> None:
    result = run("limit", "set", "--", number)
    assert result.exit_code == 2
    assert "neither `off` nor a whole number" in result.stderr


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


def test_a_payment_vendor_is_created_and_listed_without_its_secret(run: Run) -> None:
    name = f"vendor {secrets.token_hex(4)}"
    options = ("--kind", "http", "--url", "https://gateway.acme.example/v2", "--secret-env", "ACME_SECRET")
    made = json_of(run("vendors", "create", name, *options, "--json", ACME_SECRET="hidden-value"))
    assert made == {
        "name": name,
        "organisation": None,
        "kind": "http",
        "url": "https://gateway.acme.example/v2",
        "secret_env": "ACME_SECRET",
        "calls_per_second": 10,
    }
    rated = json_of(run("vendors", "set-rate", name, "2.5", "--json"))
    assert rated == {"name": name, "organisation": None, "calls_per_second": 2.5}
    assert run("vendors", "set-rate", name, "0").exit_code == 1
    made["calls_per_second"] = 2.5
    listed = run("vendors", "list", "--json")
    assert made in lines_of(listed)
    assert "hidden-value" not in listed.stdout
    again = run("vendors", "create", name, *options)
    assert "already" in again.stderr
    assert again.exit_code == 1


def test_the_time_zone_of_a_supplier_is_a_name_of_the_iana_database(run: Run, customer: Customer) -> None:
    code = customer.import_supplier
    new = f"ZONE_{secrets.token_hex(4)}"
    create = ("suppliers", "create", new, "--organisation", customer.organisation)
    assert run(*create, "--time-zone", "Europe/Nowhere").exit_code == 1
    assert json_of(run(*create, "--json"))["time_zone"] == "Europe/Amsterdam"
    refused = run("suppliers", "set-time-zone", code, "Europe/Nowhere")
    assert "'Europe/Nowhere' is not a time zone" in refused.stderr
    assert refused.exit_code == 1
    assert run("suppliers", "set-time-zone", code, "Europe/Lisbon").exit_code == 0
    assert json_of(run("suppliers", "show", code, "--json"))["time_zone"] == "Europe/Lisbon"


def test_customer_emails_can_be_switched_on_if_there_is_a_mail_server(run: Run, customer: Customer) -> None:
    code = customer.import_supplier
    mail = {
        "MIGRATION_SERVICE_SMTP_URL": "smtp://127.0.0.1:2525",
        "MIGRATION_SERVICE_EMAIL_FROM": "Sample Energy <welcome@sample-energy.example>",
    }

    def state() -> str:
        return str(json_of(run("suppliers", "show", code, "--json"))["customer_emails"])

    refused = run("suppliers", "set-emails", code, "on")
    assert refused.exit_code == 2
    assert "MIGRATION_SERVICE_SMTP_URL is not set" in refused.stderr
    assert state() == "off"
    assert json_of(run("suppliers", "set-emails", code, "on", "--json", **mail))["customer_emails"] == "on"
    assert state() == "on"
    assert run("suppliers", "set-emails", code, "on", "--send", "at_creation", **mail).exit_code == 0
    moment = ("--from", "2027-03-01T06:00:00Z")
    assert run("suppliers", "set-emails", code, "on", "--send", "at_approval", *moment, **mail).exit_code == 2
    assert run("suppliers", "set-emails", code, "on", *moment, **mail).exit_code == 0
    shown = json_of(run("suppliers", "show", code, "--json"))
    assert (shown["emails_at"], shown["emails_from"]) == ("at_moment", "2027-03-01T06:00:00Z")
    assert run("suppliers", "set-emails", code, "off").exit_code == 0
    assert state() == "off"


def test_the_version_is_shown_without_settings() -> None:
    result = CliRunner(env={"DATABASE_URL": "", "MIGRATION_SERVICE_HOME": "/nowhere"}).invoke(
        main, ["--version"]
    )
    assert result.exit_code == 0
    assert result.stdout == (
        f"migration-service {version('migration-service')}, newest revision {newest_revision()}, "
        f"Python {platform.python_version()}\n"
    )


def test_a_backup_is_recorded_with_its_moment(run: Run) -> None:
    assert json_of(run("backups", "show", "--json")) == {"taken_at": None}
    assert "never" in run("backups", "show").stdout
    assert json_of(run("backups", "taken", "--json")) == {"taken": True}
    assert json_of(run("backups", "show", "--json"))["taken_at"].endswith("Z")


def test_go_live_is_set_changed_and_then_final(run: Run, account: ImportedAccount) -> None:
    code, year = account.supplier.code, datetime.now(UTC).year + 2
    future = ("go-live", code, "--at", f"{year}-01-01T06:00:00+02:00")
    assert run(*future, given="n\n").exit_code == 1
    asked = run(*future, given="y\n")
    assert f"From {year}-01-01 04:00:00 UTC, import supplier" in asked.stderr
    assert "It has 1 account now." in asked.stderr
    assert f"goes live at {year}-01-01 04:00:00 UTC" in asked.stdout
    assert UndoClient(account.supplier).start(account.number)
    later = ("--at", f"{year}-02-01T06:00:00+01:00", "--yes", "--json")
    moved = json.loads(run("go-live", code, *later).stdout)
    assert (moved["live_at"], moved["accounts"]) == (f"{year}-02-01T05:00:00Z", 1)
    assert f"UTC instead of at {year}-02-01 05:00:00 UTC" in run(*future, given="n\n").stderr
    now = run("go-live", code, given="n\n").stderr
    assert "its 1 account can never be undone" in now
    undo, reconcile = "        1  Undos that run\n", "        1  Created accounts that have not been compared"
    assert now.startswith(f"Still open:\n{undo}{reconcile}")
    far = run("go-live", code, "--at", "2207-01-01T06:00:00Z", "--yes")
    assert "is more than five years from now" in far.stderr
    assert far.exit_code == 1


def test_a_moment_that_cannot_be_read_is_answered_with_an_example(run: Run) -> None:
    refused = run("go-live", "ANY", "--at", "1 March")
    assert "'1 March' is not a date such as 2027-03-01T06:00:00Z." in refused.stderr
    assert refused.exit_code == 2


def test_a_go_live_in_the_past_is_confirmed_and_final(run: Run, account: ImportedAccount) -> None:
    code = account.supplier.code
    past = ("go-live", code, "--at", "2026-03-01T06:00:00Z")
    refused = run(*past, given="n\n")
    assert "2026-03-01 06:00:00 UTC is in the past" in refused.stderr
    assert refused.exit_code == 1
    unasked = run(*past, "--yes")
    assert "Add --in-the-past" in unasked.stderr
    assert unasked.exit_code == 2
    assert UndoClient(account.supplier).start(account.number)
    assert "went live at 2026-03-01" in run(*past, "--yes", "--in-the-past", "--by", "Ada").stdout
    (listed,) = run("audit", "list", "--action", "import_supplier.live_set", "--json").stdout.splitlines()
    told = json.loads(listed)
    assert (told["actor_kind"], told["details"]["by"]) == ("system_user", "Ada")
    final = run("go-live", code)
    assert "went live" in final.output
    assert final.exit_code == 1
    refused_undo = UndoClient(account.supplier).post(account.number)
    assert (refused_undo.json or {})["code"] == "import_supplier_live"
    assert "live at\t2026-03-01 06:00:00 UTC" in run("suppliers", "show", code).stdout
    assert run("go-live", "NOBODY", "--yes").exit_code == 1
