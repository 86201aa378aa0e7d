"""`migration-service batches compare`: the changes from one batch to another."""

from dataclasses import asdict

import click

from migration_service.cli.output import count, json_option, show_json, show_list, write_piece
from migration_service.cli.session import open_sessions, read_settings
from migration_service.formats import ResultFormat
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.reporting.comparison import (
    ComparedAccounts,
    Comparison,
    compare_batches,
    find_changed_accounts,
    get_batches_to_compare,
    stream_changed_accounts,
    write_codes,
)
from migration_service.states import AccountChange, CodeChange


@click.command()
@click.argument("before")
@click.argument("after")
@click.option(
    "--accounts", is_flag=True, help="Write the accounts that fail in either batch, with their codes."
)
@click.option(
    "--change",
    "changes",
    multiple=True,
    type=click.Choice([change.value for change in AccountChange], case_sensitive=False),
    help="With --accounts: only accounts with this change. Can be repeated.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV: the codes, or with --accounts the accounts.")
@json_option
def compare(
    *, before: str, after: str, accounts: bool, changes: tuple[str, ...], as_csv: bool, as_json: bool
) -> None:
    """Compare two batches of the same supplier and kind, such as two rehearsals of a book.

    \b
    CAME          the code is only in AFTER        NEWLY_BROKEN    passed before, fails now
    WENT          the code is only in BEFORE       MENDED          failed before, passes now
    GREW, SHRANK  it is on more, on fewer lines    STILL_BROKEN    fails in both
                                                   ADDED_BROKEN    only in AFTER, and fails
                                                   REMOVED_BROKEN  only in BEFORE, where it failed

    --accounts writes one account per line, as NDJSON or CSV. Lines without an account number are only
    counted.
    """
    if as_csv and as_json:
        raise click.UsageError("Expected --csv or --json, not both.")
    if changes and not accounts:
        raise click.UsageError("--change needs --accounts: the summary has every change.")
    with open_sessions(read_settings()) as sessions:
        with sessions.begin() as session:
            batches = get_batches_to_compare(session, before, after, organisation_id=None)
            ids = (batches[0].id, batches[1].id)
            if not accounts:
                _show(compare_batches(session, *ids), as_csv, as_json)
                return
            for batch in batches:
                owner = batch.organisation_id
                record(session, AuditAction.BATCH_RESULTS_READ, "batch", batch.id, organisation_id=owner)
        wanted = [AccountChange(change) for change in changes or AccountChange]
        found = find_changed_accounts(sessions, *ids, wanted)
        for piece in stream_changed_accounts(found, ResultFormat.CSV if as_csv else ResultFormat.NDJSON):
            write_piece(piece)


def _show(comparison: Comparison, as_csv: bool, as_json: bool) -> None:
    if as_csv:
        write_piece(write_codes(comparison.codes))
    elif as_json:
        show_json(comparison)
    else:
        changed = [code for code in comparison.codes if code.change is not CodeChange.SAME]
        show_list([asdict(code) for code in changed], as_json=False, nothing="Every code is as it was.")
        if same := len(comparison.codes) - len(changed):
            click.echo(f"{count(same, 'code')} on as many lines as before.")
        show_list(_rows(comparison.accounts), as_json=False, nothing="")


def _rows(accounts: ComparedAccounts) -> list[dict[str, object]]:
    return [
        {"accounts": name.replace("_", " "), "number": number} for name, number in asdict(accounts).items()
    ]
