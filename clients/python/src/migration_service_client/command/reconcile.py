"""`migration-client reconcile`."""

from pathlib import Path

import click

from migration_payloads.files.output import OutputPath, replacing, say
from migration_service_client.command.lineage import find_rows
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import json_option, show_json, show_list
from migration_service_client.command.runs import find_run
from migration_service_client.command.verdicts import show_reconciliation
from migration_service_client.models import ReconciliationAnswer
from migration_service_client.operations import get_id_map
from migration_service_client.requests import as_sent


@click.command()
@click.argument("target", metavar="SUPPLIER|FILE")
@click.option("--batch", metavar="ID", help="Only the accounts of the batch with this id.")
@click.option(
    "--created-only",
    is_flag=True,
    help="Exit with 1 only if a created account differs, not if something is open.",
)
@click.option(
    "--id-map",
    type=OutputPath(),
    metavar="FILE.csv",
    help="Also write the external and the new number of every created account.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Compare all accounts. Otherwise those of which nothing has changed count as the last time.",
)
@json_option
@online(patience=60)
def reconcile(
    *,
    target: str,
    batch: str | None,
    full: bool,
    created_only: bool,
    id_map: Path | None,
    as_json: bool,
    service: Service,
) -> None:
    """Compare what a SUPPLIER sent, or a FILE, with what was created.

    It counts what was sent by outcome, and lists what is open: neither created nor skipped nor acknowledged.
    It compares every value of the created accounts with what was staged. And it shows what became of
    each total: in the file, refused, staged or created, with --batch beside the supplier's control totals.

    Of a FILE that was sent in single requests there is no batch: all of its supplier is compared.

    The exit status is 0 if everything is clean, 1 otherwise, and 2 if the command could not run. A large book
    takes a while: the command waits, and if it is interrupted, the next one joins the comparison.
    """
    run = find_run(target)
    supplier = target if run is None else run.order["supplier"]
    batch = batch or (run.batch_id if run else None)
    if run is not None and batch is None:
        say(f"{target} was sent in single requests: this compares all accounts of {supplier}.", err=True)
    with service.client() as client:
        found = client.reconcile_import_supplier(supplier, batch=batch, full=full)
        if id_map is not None:
            with replacing(id_map) as out:
                out.writelines(it + b"\n" for it in client.iterate(as_sent(get_id_map(supplier))))
    if as_json:
        show_json(found)
    else:
        show_reconciliation(found)
        _show_rows(found, Path(target.removesuffix(".journal")))
    if not (found.created_clean if created_only else found.clean):
        click.get_current_context().exit(1)


def _show_rows(found: ReconciliationAnswer, book: Path) -> None:
    """Print the rows of which that was made which is open or differs, if `convert` has made the file."""
    places = [(it.external_account_number, error.attr) for it in found.open for error in it.errors or ()]
    places += [(it.external_account_number, value.path) for it in found.differences for value in it.values]
    rows = find_rows(book, places)
    made_of = [{"account": account, "path": path, "made_of": row} for (account, path), row in rows.items()]
    if made_of:
        say("")
        show_list(made_of, as_json=False, nothing="")
