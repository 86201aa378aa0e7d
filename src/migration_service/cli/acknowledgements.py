"""`migration-service acknowledgements`."""

import getpass

import click

from migration_service.cli.deciding import BY, WORDS
from migration_service.cli.output import count, json_option, pick, show_done, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.services.reconciliation.acknowledgements import (
    AcknowledgementOrder,
    acknowledge,
    list_acknowledgements,
)
from migration_service.services.reconciliation.comparisons import get_batch_to_reconcile
from migration_service.services.setup.suppliers import get_import_supplier


@click.group()
def acknowledgements() -> None:
    """Acknowledge refused accounts that will not be migrated, with a reason."""


@acknowledgements.command()
@click.argument("supplier")
@click.argument("external_account_numbers", nargs=-1, metavar="[EXTERNAL_ACCOUNT_NUMBER]...")
@click.option(
    "--batch",
    "batch_id",
    metavar="ID",
    help="Acknowledge the lines of this batch that have no account number.",
)
@click.option(
    "--line",
    "lines",
    type=click.IntRange(1),
    multiple=True,
    metavar="N",
    help="Only this line of the batch. Can be repeated.",
)
@click.option(
    "--reason",
    required=True,
    type=WORDS,
    help="Why they are not migrated. It is kept in the audit: no personal data.",
)
@BY
@json_option
def add(
    *,
    supplier: str,
    external_account_numbers: tuple[str, ...],
    batch_id: str | None,
    lines: tuple[int, ...],
    reason: str,
    by: str | None,
    as_json: bool,
) -> None:
    """Acknowledge refused accounts of SUPPLIER, or refused lines without an account number.

    They no longer count as open in `reconcile`. An account that is refused again becomes open again. To leave
    out staged accounts, use `accounts skip` instead.
    """
    if bool(external_account_numbers) == (batch_id is not None):
        raise click.UsageError("Expected either account numbers or --batch: give one of them.")
    if lines and batch_id is None:
        raise click.UsageError("--line needs the --batch that the line is in.")
    with open_session(read_settings()) as session:
        found = get_import_supplier(session, supplier, organisation_id=None)
        order = AcknowledgementOrder(
            reason=reason,
            acknowledged_by=by or getpass.getuser(),
            external_account_numbers=external_account_numbers,
            batch_id=get_batch_to_reconcile(session, batch_id, found),
            line_numbers=lines or None,
        )
        acknowledged = acknowledge(session, found.id, order)
    kind = "account" if external_account_numbers else "line"
    show_done({"acknowledged": acknowledged}, as_json, f"{count(acknowledged, kind)} acknowledged.")


@acknowledgements.command("list")
@click.argument("supplier")
@json_option
def list_all(supplier: str, as_json: bool) -> None:
    """List the acknowledgements for SUPPLIER, newest first: what, by whom, when and why."""
    names = ("external_account_number", "batch_id", "line_number", "reason", "acknowledged_by")
    with open_session(read_settings()) as session:
        owner = get_import_supplier(session, supplier, organisation_id=None)
        found = list_acknowledgements(session, owner.id).all()
    rows = [pick(item, *names, "acknowledged_at") for item in found]
    show_list(rows, as_json, nothing="Nothing has been acknowledged yet. See: acknowledgements add --help")
