"""`migration-service operators`."""

import sys

import click

from migration_service.cli.output import json_option, pick, show_done, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.services.access.operators import (
    OperatorRole,
    create_operator,
    disable_operator,
    list_operators,
    set_operator_password,
    set_operator_role,
)

_role = click.Choice([role.value for role in OperatorRole])


@click.group()
def operators() -> None:
    """Manage operators: the people who use the console, each with a role."""


@operators.command()
@click.argument("name")
@click.option(
    "--role",
    required=True,
    type=_role,
    help="read: see everything but personal data. operate: also start and stop work, and see "
    "personal data. administer: everything.",
)
@click.option(
    "--organisation",
    "organisations",
    multiple=True,
    metavar="NAME",
    help="Limit the operator to this organisation. Can be repeated.  [default: all]",
)
@json_option
def create(name: str, role: str, organisations: tuple[str, ...], as_json: bool) -> None:
    """Create the operator NAME, who can log in after `operators set-password NAME`."""
    with open_session(read_settings()) as session:
        create_operator(session, name, OperatorRole(role), organisations=organisations)
    record = {"name": name, "role": role, "organisations": list(organisations)}
    show_done(record, as_json, f"Operator {name!r} was created. Next: operators set-password.")


@operators.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all operators with their role, organisations and last login."""
    with open_session(read_settings()) as session:
        records = [
            {
                **pick(operator, "name", "role"),
                "organisations": bound,
                "has_password": operator.password_hash is not None,
                **pick(operator, "last_login_at", "disabled_at"),
            }
            for operator, bound in list_operators(session)
        ]
    show_list(records, as_json, nothing="There are no operators yet: operators create NAME --role ROLE.")


@operators.command("set-role")
@click.argument("name")
@click.argument("role", type=_role)
@json_option
def change_role(name: str, role: str, as_json: bool) -> None:
    """Give the operator NAME another role."""
    with open_session(read_settings()) as session:
        set_operator_role(session, name, OperatorRole(role))
    show_done({"name": name, "role": role}, as_json, f"Operator {name!r} has the role {role}.")


@operators.command("set-password")
@click.argument("name")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from standard input.")
@json_option
def change_password(name: str, from_stdin: bool, as_json: bool) -> None:
    """Set the password of the operator NAME. It has 12 to 256 characters and is asked for twice."""
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    with open_session(read_settings()) as session:
        set_operator_password(session, name, password)
    show_done({"name": name}, as_json, f"The password of operator {name!r} is set.")


@operators.command()
@click.argument("name")
@json_option
def disable(name: str, as_json: bool) -> None:
    """Disable the operator NAME, who can then no longer log in."""
    with open_session(read_settings()) as session:
        disabled_at = disable_operator(session, name).disabled_at
    show_done({"name": name, "disabled_at": disabled_at}, as_json, f"Operator {name!r} is disabled.")
