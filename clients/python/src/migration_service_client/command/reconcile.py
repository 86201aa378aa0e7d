"""`migration-client reconcile`."""

import click

from migration_payloads.files.output import say
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import count, json_option, show_json, show_list, show_record
from migration_service_client.command.runs import find_run
from migration_service_client.models import ReconciliationAnswer

_SENT = ("sent", "refused", "waiting", "staged", "created", "skipped", "acknowledged", "open")
#: For people: how many items of each kind are shown.
_SHOWN = 20


@click.command()
@click.argument("target", metavar="SUPPLIER|FILE")
@click.option("--batch", metavar="BATCH", help="Only the accounts of the batch with this id.")
@json_option
@online(patience=60)
def reconcile(*, target: str, batch: str | None, as_json: bool, service: Service) -> None:
    """Compare what a SUPPLIER sent, or a FILE, with what was created.

    Of a FILE that was sent in single requests there is no batch: all of its supplier is compared.

    The exit status is 0 if everything is clean, 1 otherwise, and 2 if the command could not run. A large book
    takes a while: the command waits.
    """
    run = find_run(target)
    supplier = target if run is None else run.order["supplier"]
    batch = batch or (run.batch_id if run else None)
    if run is not None and batch is None:
        say(f"{target} was sent in single requests: this compares all accounts of {supplier}.", err=True)
    with service.client() as client:
        found = client.reconcile_import_supplier(supplier, batch=batch)
    if as_json:
        show_json(found)
    else:
        _show(found)
    if not found.clean:
        click.get_current_context().exit(1)


def _show(found: ReconciliationAnswer) -> None:
    show_record({name: getattr(found.sent, name) for name in _SENT}, as_json=False)
    if found.open:
        say(f"\n{count(len(found.open), 'item')} open{_first(len(found.open))}:\n")
        rows = (
            {
                "account": it.external_account_number,
                "reason": it.reason,
                "batch": it.batch_id,
                "line": it.line_number,
                "errors": list(dict.fromkeys(error.code for error in it.errors or ())),
            }
            for it in found.open[:_SHOWN]
        )
        show_list(rows, as_json=False, nothing="")
    if found.differences:
        say(f"\n{count(found.differing, 'created account')} differ{_first(len(found.differences))}:\n")
        differing = (
            {
                "account": it.external_account_number,
                "created as": it.service_account_number,
                "differs in": [value.path for value in it.values] or [one.measure for one in it.differences],
            }
            for it in found.differences[:_SHOWN]
        )
        show_list(differing, as_json=False, nothing="")
    problems = ", ".join(f"{it.problem} {it.number:,}" for it in found.problems)
    verdict = "Clean: nothing is open, and nothing differs." if found.clean else f"Not clean: {problems}."
    say(f"{count(found.compared, 'created account')} compared. {verdict}")


def _first(number: int) -> str:
    return f", of which the first {_SHOWN} (all with --json)" if number > _SHOWN else ""
