"""`api-keys`, `operators` and `audit`, with `--json` and for people."""

import csv
import io
import secrets
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.errors import UnauthenticatedError
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.operators import authenticate_operator
from migration_service.services.access.tokens import obtain_tokens, refresh_tokens
from migration_service.services.audit.entries import AuditAction, record
from support.commands import Run, json_of, lines_of
from support.factories import Customer


@pytest.fixture
def run(run: Run) -> Run:
    """Run `migration-service` with these arguments and an input, as somebody who used sudo."""
    return lambda *arguments, sent=None: run(*arguments, given=sent, SUDO_USER="anna")


def _listed(run: Run, prefix: str) -> Any:
    return next(it for it in lines_of(run("api-keys", "list", "--json")) if it["prefix"] == prefix)


def test_a_key_is_issued_with_limits_rolled_and_listed(run: Run, customer: Customer) -> None:
    options = ["--name", "nightly", "--scope", "stage", "--scope", "read", "--network", "192.0.2.7"]
    options += ["--supplier", customer.import_supplier, "--expires-in", "3660d", "--json"]
    issued = json_of(run("api-keys", "issue", "--organisation", customer.organisation, *options))
    listed = _listed(run, issued["prefix"])
    assert (listed["name"], listed["scopes"]) == ("nightly", ["stage", "read"])
    assert (listed["networks"], len(listed["import_supplier_ids"])) == (["192.0.2.7/32"], 1)
    rolled = json_of(run("api-keys", "roll", issued["prefix"], "--overlap", "12h", "--json"))
    assert rolled["old_prefix"] == issued["prefix"]
    successor = _listed(run, rolled["prefix"])
    for field in ("name", "scopes", "networks", "import_supplier_ids", "expires_at"):
        assert successor[field] == listed[field]
    assert _listed(run, issued["prefix"])["expires_at"] == rolled["old_expires_at"] < listed["expires_at"]
    assert run("api-keys", "revoke", issued["prefix"]).exit_code == 0
    assert "was revoked, or has expired" in run("api-keys", "roll", issued["prefix"]).stderr


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        (("--scope", "everything"), 2, "everything"),
        (("--expires-in", "soon"), 2, "30m, 12h or 7d"),
        (("--expires-in", "3661d"), 2, "30m, 12h or 7d"),
        (("--network", "192.0.2.1/24"), 1, "is not a network"),
        (("--supplier", "NOTHING"), 1, "NOTHING"),
        (("--name", " "), 1, "printable characters"),
    ],
)
def test_invalid_limits_of_a_key_are_refused(
    run: Run, customer: Customer, options: tuple[str, ...], status: int, sentence: str
) -> None:
    result = run("api-keys", "issue", "--organisation", customer.organisation, *options)
    assert (result.exit_code, result.stdout) == (status, "")
    assert sentence in result.stderr


def test_sessions_are_listed_and_ended(
    run: Run, customer: Customer, sessions: sessionmaker[Session], migrated: Settings
) -> None:
    with sessions.begin() as session:
        tokens = obtain_tokens(session, migrated, customer.api_key)
    (listed,) = lines_of(run("api-keys", "sessions", customer.prefix, "--json"))
    assert listed["session_id"] == tokens.payload["sid"]
    assert json_of(run("api-keys", "end-session", listed["session_id"], "--json"))["ended_at"]
    assert "has no sessions" in run("api-keys", "sessions", customer.prefix).stdout
    assert "does not exist" in run("api-keys", "end-session", "nothing").stderr
    with sessions.begin() as session, pytest.raises(UnauthenticatedError, match="ended"):
        refresh_tokens(session, migrated, tokens.refresh_token)


def test_an_operator_is_created_gets_a_password_and_a_role_and_is_disabled(
    run: Run, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    name, password = f"Anna {secrets.token_hex(4)}", "a long enough password"
    options = ("--role", "read", "--organisation", customer.organisation, "--json")
    assert json_of(run("operators", "create", name, *options))["role"] == "read"
    assert run("operators", "set-password", name, "--stdin", sent="short\n").exit_code == 1
    assert run("operators", "set-password", name, "--stdin", sent=f"{password}\n").exit_code == 0
    assert run("operators", "set-role", name, "operate").exit_code == 0
    assert authenticate_operator(sessions, name, password).role == "operate"
    listed = [it for it in lines_of(run("operators", "list", "--json")) if it["name"] == name]
    assert [(it["role"], it["organisations"]) for it in listed] == [("operate", [customer.organisation])]
    assert listed[0]["last_login_at"]
    asked = run("operators", "set-password", name, sent=f"{password} 2\n{password} 2\n")
    assert asked.exit_code == 0
    assert password not in asked.output
    assert json_of(run("operators", "disable", name, "--json"))["disabled_at"]
    with pytest.raises(UnauthenticatedError):
        authenticate_operator(sessions, name, f"{password} 2")


def test_each_command_has_an_audit_entry_with_the_system_user(run: Run) -> None:
    name = f"Noord {secrets.token_hex(4)}"
    for command in (("organisations", "create", name), ("teams", "create", name, "--organisation", name)):
        assert run(*command).exit_code == 0
    entries = lines_of(run("audit", "list", "--organisation", name, "--json"))
    assert [entry["action"] for entry in entries] == ["operations_team.created", "organisation.created"]
    for entry in entries:
        assert entry["actor_kind"] == "system_user"
        assert entry["actor"].endswith("(sudo: anna)")
        assert (entry["subject"], entry["outcome"]) == (name, "DONE")
    first = run("audit", "list", "--organisation", name, "--limit", "1", "--json")
    cursor = first.stderr.split("'")[1]
    second = run("audit", "list", "--organisation", name, "--limit", "1", "--cursor", cursor, "--json")
    assert [*lines_of(first), *lines_of(second)] == entries
    assert second.stderr == ""
    assert "has no such entries" in run("audit", "list", "--organisation", name, "--refused").stdout


def test_everything_that_commands_set_up_and_change_is_in_the_audit(run: Run) -> None:
    tail = secrets.token_hex(4)
    organisation, supplier, person = f"Noord {tail}", f"NOORD_{tail.upper()}", f"grace {tail}"
    assert run("organisations", "create", organisation).exit_code == 0
    prefix = json_of(run("api-keys", "issue", "--organisation", organisation, "--json"))["prefix"]
    password = "a long enough password"
    acts = [
        ("import_supplier.created", ("suppliers", "create", supplier, "--organisation", organisation)),
        ("import_supplier.status_set", ("suppliers", "set-status", supplier, "PAUSED")),
        ("import_supplier.time_zone_set", ("suppliers", "set-time-zone", supplier, "Europe/Paris")),
        ("import_supplier.customer_emails_set", ("suppliers", "set-emails", supplier, "off")),
        ("import_supplier.renamed", ("suppliers", "rename", supplier, f"{supplier}_2")),
        ("import_supplier.status_set", ("suppliers", "set-status", f"{supplier}_2", "COMPLETE")),
        ("import_supplier.removed", ("suppliers", "remove", f"{supplier}_2")),
        ("operations_team.created", ("teams", "create", supplier, "--organisation", organisation)),
        ("operations_team.renamed", ("teams", "rename", supplier, "West", "--organisation", organisation)),
        ("operations_team.removed", ("teams", "remove", "West", "--organisation", organisation)),
        ("api_key.rolled", ("api-keys", "roll", prefix)),
        ("api_key.revoked", ("api-keys", "revoke", prefix)),
        ("operator.created", ("operators", "create", person, "--role", "read")),
        ("operator.role_set", ("operators", "set-role", person, "operate")),
        ("operator.password_set", ("operators", "set-password", person)),
        ("operator.disabled", ("operators", "disable", person)),
    ]
    for action, command in acts:
        sent = f"{password}\n{password}\n" if action == "operator.password_set" else None
        done = run(*command, sent=sent)
        assert done.exit_code == 0, (command, done.output)
        (newest,) = lines_of(run("audit", "list", "--limit", "1", "--action", action, "--json"))
        assert (newest["actor_kind"], newest["subject"]) == ("system_user", command[2]), action
    issued = ("--action", "api_key.issued", "--organisation", organisation)
    (entry,) = lines_of(run("audit", "list", *issued, "--json"))
    assert entry["subject"] == prefix


def test_exporting_the_audit_has_an_entry_too(run: Run) -> None:
    name = f"Noord {secrets.token_hex(4)}"
    run("organisations", "create", name)
    (entry,) = lines_of(run("audit", "export", "--organisation", name))
    assert entry["action"] == "organisation.created"
    table = list(
        csv.DictReader(io.StringIO(run("audit", "export", "--organisation", name, "--format", "csv").stdout))
    )
    assert [(row["action"], row["subject"]) for row in table] == [("organisation.created", name)]
    exports = lines_of(run("audit", "list", "--action", "audit.exported", "--json"))
    assert {"organisation": name} in [entry["details"] for entry in exports]


def test_an_exported_audit_has_no_control_characters_for_a_terminal(
    run: Run, sessions: sessionmaker[Session]
) -> None:
    request_id, subject = secrets.token_hex(8), "a\x1b[2Jb\x9bc\u202ed"
    origin = Origin(kind=ActorKind.SYSTEM_USER, actor="anna", request_id=request_id)
    with acting_as(origin), sessions.begin() as session:
        record(session, AuditAction.TEAM_CREATED, "operations_team", subject, details={"it": subject})
    exported = run("audit", "export", "--request-id", request_id)
    (entry,) = lines_of(exported)
    assert (entry["subject"], entry["details"]) == (subject, {"it": subject})
    assert not set(exported.stdout) & {"\x1b", "\x9b", "\u202e"}


def test_the_audit_of_a_running_service_passes_the_verification(run: Run) -> None:
    found = json_of(run("audit", "verify", "--json"))
    assert found["problems"] == []
    wrong = run("audit", "verify", "--head", "00")
    assert wrong.exit_code == 1
    assert "The known head 00 is not in the chain." in wrong.stdout
    assert run("audit", "list", "--cursor", "x").exit_code == 1
