"""`migration-service accounts`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TextIO

import click
from sqlalchemy.orm import Session

from migration_service.cli.options import BY, WORDS
from migration_service.cli.output import count, json_option, pick, show_done, show_record, show_tree, together
from migration_service.cli.session import open_session, read_settings
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountNotStagedError
from migration_service.models import AccountImportProcess, Attempt
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.results.findings import list_lines_of_account
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.services.imports.status import find_process
from migration_service.services.reporting.account_history import read_newer_version
from migration_service.services.reporting.attempts import read_attempts
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier

_of_process = together(click.argument("supplier"), click.argument("external_account_number"), json_option)
_of_numbers = together(
    click.argument("supplier"),
    click.argument("external_account_numbers", nargs=-1),
    click.option(
        "--file",
        "file",
        type=click.File(encoding="utf-8"),
        help="Read the numbers from a file, one per line. '-' is standard input.",
    ),
    json_option,
)


@click.group()
def accounts() -> None:
    """Show, skip, unskip or erase single accounts."""


@accounts.command()
@_of_process
def show(supplier: str, external_account_number: str, as_json: bool) -> None:
    """Show everything about one account.

    Prints its import with the warnings from staging, its attempts, its lines in batches with their errors,
    and everything that was created.
    """
    with open_session(read_settings()) as session:
        found = _read(session, supplier, external_account_number)
    if as_json:
        show_record(found, as_json)
    else:
        show_tree(f"{supplier} {external_account_number}", found)


@accounts.command()
@_of_numbers
@click.option("--reason", required=True, type=WORDS, help="The reason. It is kept: no personal data.")
@BY
def skip(*, reason: str, by: str | None, **accounts: Any) -> None:
    """Skip accounts: they are neither staged nor created until `accounts unskip`.

    They need not be staged yet. If one of them already exists or is being created, nothing is changed.
    """
    _change(partial(skip_accounts, reason=reason, by=by), **accounts)


@accounts.command()
@_of_numbers
def unskip(**accounts: Any) -> None:
    """Stop skipping accounts, so that they can be staged and created."""
    _change(unskip_accounts, **accounts)


@accounts.command()
@_of_process
@click.option(
    "--reason", required=True, type=WORDS, help="The reason, for example the number of the request."
)
@BY
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def erase(
    *, supplier: str, external_account_number: str, as_json: bool, reason: str, by: str | None, yes: bool
) -> None:
    """Erase the personal data of an account permanently.

    The account's numbers are kept, and so are the amounts and dates of its bookings. An account that was not
    created is removed, and skipped from then on. Backups and other copies outside the tables are not erased:
    see the operators' guide.
    """
    if not yes:
        click.confirm(
            f"Permanently erase account {external_account_number!r} of {supplier!r}?", abort=True, err=True
        )
    with open_session(read_settings()) as session:
        owner = get_import_supplier(session, supplier, organisation_id=None)
        erased = erase_account(session, owner, external_account_number, reason=reason, by=by)
    record = {"import_supplier": supplier, **erased}
    told = ", ".join(
        count(erased[name], noun)
        for name, noun in (
            ("customers", "customer"),
            ("batch_lines", "line"),
            ("kept_answers", "kept answer"),
        )
    )
    show_done(record, as_json, f"Account {external_account_number!r} of {supplier!r} was erased: {told}.")


def _change(
    change: Callable[[Session, int, Sequence[str]], None],
    *,
    supplier: str,
    external_account_numbers: tuple[str, ...],
    file: TextIO | None,
    as_json: bool,
) -> None:
    lines = (line.strip() for line in file or ())
    numbers = list(dict.fromkeys([*external_account_numbers, *filter(None, lines)]))
    if not numbers:
        raise click.UsageError("Expected at least one external account number, as an argument or in --file.")
    with open_session(read_settings()) as session:
        supplier_id = get_import_supplier(session, supplier, organisation_id=None).id
        change(session, supplier_id, numbers)
        found = storing.find(OpenTransaction.of(session), supplier_id, numbers)
    for number in numbers:
        state = found[number].state if number in found else None
        result = {"import_supplier": supplier, "external_account_number": number, "state": state}
        sentence = f"is {state}" if state else "may be staged"
        show_done(result, as_json, f"Account {number!r} of {supplier!r} {sentence}.")


def _record_reading(session: Session, supplier: KnownSupplier, process: AccountImportProcess | None) -> None:
    """Record in the audit that an account was read, by its id: the audit has no account numbers."""
    action, owner = AuditAction.ACCOUNT_READ, supplier.organisation_id
    if process is not None:
        record(session, action, "account", process.id, organisation_id=owner)
    else:
        details = {"not_staged": 1}
        record(session, action, "import_supplier", supplier.code, organisation_id=owner, details=details)


def _read(session: Session, supplier_code: str, number: str) -> dict[str, Any]:
    supplier = get_import_supplier(session, supplier_code, organisation_id=None)
    process = find_process(session, supplier.id, number)
    lines = list_lines_of_account(session, supplier.id, number)
    marked = number in storing.find(OpenTransaction.of(session), supplier.id, [number])
    if process is None and not lines and not marked:
        raise AccountNotStagedError(
            "The account is not staged, and no stored batch has a line with it. Check the number, or see "
            f"what was sent: migration-client reconcile {supplier_code}."
        )
    account = find_account(session, supplier.id, number) if process else None
    _record_reading(session, supplier, process)
    return {
        "import": {
            "organisation": supplier.organisation_name,
            **(_import(process) if process else _NOT_STAGED | ({"state": "SKIPPED"} if marked else {})),
        },
        "attempts": [_attempt(attempt) for attempt in read_attempts(session, process.id)] if process else [],
        "batch_lines": lines,
        "account": read_account(session, account) if account else None,
    }


#: Shown for an account that is not staged because every line with it was refused.
_NOT_STAGED = {"state": None, "reason": "Nothing is staged: the lines below show why."}


def _import(process: AccountImportProcess) -> dict[str, Any]:
    return {
        **pick(process, "state", "service_account_number", "account_created_at", "staged_at"),
        **pick(process, "extracted_at", "profile"),
        "warnings": process.warnings or [],
        "newer_version": read_newer_version(process),
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt_id": str(attempt.id),
        **pick(attempt, "dry_run", "created_at", "finished_at", "outcome", "error_code", "error_detail"),
        "errors": attempt.errors or [],
        "request_id": attempt.request_id,
    }
