"""`migration-client status`."""

from typing import Any
from uuid import UUID

import click

from migration_service_client import codes
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import json_option, show_list, show_record
from migration_service_client.command.runs import find_run
from migration_service_client.models import BatchProgressAnswer, ImportSupplierAnswer


@click.command()
@click.argument("target", metavar="[FILE|BATCH|SUPPLIER]", required=False)
@click.option("--account", metavar="NUMBER", help="Show this account of --supplier.")
@click.option("--supplier", metavar="CODE", help="The import supplier of the account.")
@json_option
@online()
def status(
    *, target: str | None, account: str | None, supplier: str | None, as_json: bool, service: Service
) -> None:
    """Show all suppliers or one, a FILE that was sent, the BATCH with this id, or an account."""
    if (account is None) != (supplier is None) or (target is not None and account is not None):
        raise click.UsageError("Expected a FILE or a BATCH, or --account with --supplier, or nothing.")
    run = find_run(target) if target is not None else None
    if run is not None and run.batch_id is None:
        names = ("file", "supplier", "mode")
        state = "COMPLETED" if run.has_ended else "INCOMPLETE"
        order = {name: run.order[name] for name in names}
        show_record({**order, "began": run.began, "state": state, "counts": run.counts}, as_json)
        return
    with service.client() as client:
        if target is not None and run is None and not _is_id(target):
            try:
                show_record(_supplier(client.get_import_supplier(target)), as_json)
            except codes.ImportSupplierNotFound as error:
                raise CannotRunError(
                    f"{target} is neither a file that was sent, nor the id of a batch, nor a supplier."
                ) from error
        elif target is not None:
            _show_batch(client.get_batch(target if run is None else str(run.batch_id)), as_json)
        elif account is not None and supplier is not None:
            found = client.get_account_status(supplier, account)
            number = found.service_account_number or None
            show_record({"status": found.status, "service_account_number": number}, as_json)
        else:
            show_list(map(_supplier, client.list_import_suppliers()), as_json, nothing="No import supplier.")


def _is_id(target: str) -> bool:
    try:
        UUID(target)
    except ValueError:
        return False
    return True


def _supplier(found: ImportSupplierAnswer) -> dict[str, Any]:
    names = ("import_supplier", "status", "profile")
    return {name: getattr(found, name) for name in names} | found.counts


def _show_batch(batch: BatchProgressAnswer, as_json: bool) -> None:
    names = ("batch_id", "import_supplier", "mode", "state", "reason", "condition", "lines", "counts")
    times = ("error_counts", "warning_counts", "created_at", "finished_at", "time_left_low", "time_left_high")
    found = {name: getattr(batch, name) for name in names + times}
    if not as_json:
        found["counts"] = {status: number for status, number in batch.counts.items() if number}
    show_record(found, as_json)
