"""`migration-service accounts`."""

from typing import Any

import click
from rich.console import Console
from rich.text import Text
from rich.tree import Tree
from sqlalchemy.orm import Session

from migration_service.cli.output import json_option, show_done, show_record
from migration_service.cli.session import open_session, read_settings
from migration_service.errors import AccountNotStagedError
from migration_service.models import AccountImportProcess, Attempt
from migration_service.services.access.audit import AuditAction, record
from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.imports.staging import find_process, skip_account, unskip_account
from migration_service.services.processing.attempts import list_attempts
from migration_service.services.setup.suppliers import get_import_supplier

_process = [
    click.argument("supplier"),
    click.argument("external_account_number"),
    json_option,
]


def _of_process(command: Any) -> Any:
    for decorate in reversed(_process):
        command = decorate(command)
    return command


@click.group()
def accounts() -> None:
    """Single accounts on their way: look at one, take it out, put it back."""


@accounts.command()
@_of_process
def show(supplier: str, external_account_number: str, as_json: bool) -> None:
    """Everything about one account: its import, its attempts, and all that was created."""
    with open_session(read_settings()) as session:
        record = _record(session, supplier, external_account_number)
    if as_json:
        show_record(record, as_json)
    else:
        tree = Tree(Text(f"{supplier} {external_account_number}", style="bold"))
        _grow(tree, record)
        Console(soft_wrap=True).print(tree)


@accounts.command()
@_of_process
def skip(supplier: str, external_account_number: str, as_json: bool) -> None:
    """Take a staged account out: it is neither staged again nor created."""
    with open_session(read_settings()) as session:
        skip_account(session, _id_of(session, supplier), external_account_number)
    _show_state(supplier, external_account_number, "SKIPPED", as_json)


@accounts.command()
@_of_process
def unskip(supplier: str, external_account_number: str, as_json: bool) -> None:
    """Put an account back that was taken out."""
    with open_session(read_settings()) as session:
        unskip_account(session, _id_of(session, supplier), external_account_number)
    _show_state(supplier, external_account_number, "PENDING", as_json)


def _id_of(session: Session, supplier: str) -> int:
    return get_import_supplier(session, supplier, organisation_id=None).id


def _show_state(supplier: str, number: str, state: str, as_json: bool) -> None:
    record = {"import_supplier": supplier, "external_account_number": number, "state": state}
    show_done(record, as_json, f"Account {number!r} of {supplier!r} is {state}.")


def _record(session: Session, supplier_code: str, number: str) -> dict[str, Any]:
    supplier = get_import_supplier(session, supplier_code, organisation_id=None)
    process = find_process(session, supplier.id, number)
    if process is None:
        raise AccountNotStagedError
    account = find_account(session, supplier.id, number)
    record(session, AuditAction.ACCOUNT_READ, "account", process.id, organisation_id=supplier.organisation_id)
    return {
        "import": {"organisation": supplier.organisation_name, **_import(process)},
        "attempts": [_attempt(attempt) for attempt in list_attempts(session, process.id)],
        "account": read_account(session, account) if account else None,
    }


def _import(process: AccountImportProcess) -> dict[str, Any]:
    return {
        "state": process.state,
        "service_account_number": process.service_account_number,
        "account_created_at": process.account_created_at,
        "staged_at": process.staged_at,
        "profile": process.profile,
        "warnings": process.warnings or [],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt_id": str(attempt.id),
        "dry_run": attempt.dry_run,
        "created_at": attempt.created_at,
        "finished_at": attempt.finished_at,
        "outcome": attempt.outcome,
        "error_code": attempt.error_code,
        "error_detail": attempt.error_detail,
        "errors": attempt.errors or [],
        "request_id": attempt.request_id,
    }


def _grow(tree: Tree, value: Any) -> None:
    """Hang the fields of an object, or the elements of a list, on a branch."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in items:
        if isinstance(below, dict | list):
            if below:
                _grow(tree.add(Text(str(key), style="bold")), below)
        elif below is not None:
            tree.add(Text.assemble((f"{key}: ", "dim"), str(below)))
