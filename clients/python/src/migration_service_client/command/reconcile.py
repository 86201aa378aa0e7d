"""`migration-client reconcile`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from migration_payloads.files.output import OutputPath, replacing, say
from migration_service_client import models
from migration_service_client.command.lineage import find_rows
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import (
    Record,
    count,
    json_option,
    show_json,
    show_list,
    show_record,
)
from migration_service_client.command.runs import find_run
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
@online(patience=120)
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


_SENT = ("sent", "refused", "waiting", "staged", "created", "skipped", "acknowledged", "open")
#: How many items of each kind are shown, and how many values of each account and characters of each value.
_SHOWN, _VALUES, _WIDTH = 20, 5, 60
#: Columns that are shown only if a value is not zero, and those that only a file with control totals has.
_RARE = ("waiting", "acknowledged", "repeated", "skipped", "staged")
_OF_FILES = ("given", "file", "difference", "unaccounted")


def show_reconciliation(found: models.ReconciliationAnswer) -> None:
    """Print what a reconciliation found, and why it is not clean."""
    show_record({name: getattr(found.sent, name) for name in _SENT}, as_json=False)
    if found.open:
        say(f"\n{count(len(found.open), 'item')} open{_first(len(found.open))}:\n")
        rows: list[Record] = [
            {
                "account": it.external_account_number,
                "reason": it.reason,
                "batch": it.batch_id,
                "line": it.line_number,
                "errors": list(dict.fromkeys(error.code for error in it.errors or ())),
            }
            for it in found.open[:_SHOWN]
        ]
        show_list(rows, as_json=False, nothing="")
    else:
        say("Nothing is open.")
    say("\nThe created accounts, in counts and euros:\n")
    totals: list[Record] = [
        {
            "measure": it.measure,
            "staged": it.staged,
            "created": it.created,
            "differs": it.staged != it.created,
        }
        for it in found.totals
    ]
    show_list(totals, as_json=False, nothing="No account was created.")
    if found.differences:
        say(f"\n{count(found.differing, 'created account')} differ{_first(len(found.differences))}:\n")
        differing = (row for it in found.differences[:_SHOWN] for row in _values(it))
        show_list(differing, as_json=False, nothing="")
    for line in found.lines_not_comparable:
        say(f"Line {line.line_number} of batch {line.batch_id} cannot be compared.")
    if found.book is not None:
        _show_book(found.book)
    if found.not_compared:
        say(f"\nNot compared: {'; '.join(found.not_compared)}.")
    problems = ", ".join(f"{it.problem} {it.number:,}" for it in found.problems)
    verdict = "Clean: nothing is open, and nothing differs." if found.clean else f"Not clean: {problems}."
    say(f"{count(found.compared, 'created account')} compared. {verdict}")


def _first(number: int) -> str:
    return f", of which the first {_SHOWN} (all with --json)" if number > _SHOWN else ""


def _values(account: models.AccountDifferenceAnswer) -> Iterator[Record]:
    """Yield a row for each value that differs, or for each measure if there are no values."""
    found: list[tuple[str, Any, Any]] = [(it.path, it.staged, it.created) for it in account.values]
    found = found or [(it.measure, it.staged, it.created) for it in account.differences]
    if len(found) > _VALUES:
        more = count(len(found) - _VALUES, "more value")
        found = [*found[:_VALUES], (f"and {more} (all with --json)", None, None)]
    for path, staged, created in found:
        numbers = {"account": account.external_account_number, "created as": account.service_account_number}
        yield {**numbers, "path": path, "staged": _text(staged), "created": _text(created)}


def _text(value: Any) -> str | None:
    """Return a value as JSON, so that a text and a number look different. None if there is no value."""
    if value is None:
        return None
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _show_book(book: models.BookTotalsAnswer) -> None:
    """Print what became of each total: in the file, refused, staged or created."""
    say("\nThe book, in accounts, statements, transactions and euros:\n")
    rows = [
        {name: getattr(it, name) for name in it.__slots__}  # ordered as in the description
        for it in book.totals
    ]
    hidden = {name for name in _RARE if all(row[name] in (0, None) for row in rows)}
    if book.given is None:
        hidden.update(_OF_FILES)
    elif not book.given:
        hidden.update(("given", "difference"))
    shown: list[Record] = [{name: it for name, it in row.items() if name not in hidden} for row in rows]
    show_list(shown, as_json=False, nothing="Nothing was sent.")
    if book.unreadable_lines or book.unreadable_amounts:
        lines, amounts = count(book.unreadable_lines, "line"), count(book.unreadable_amounts, "amount")
        say(f"Among the data that is not staged, {lines} and {amounts} could not be read.")
    if book.given is not None:
        say(f"Control totals: {_describe(book.differing, book.as_given)}.")
        return
    files: list[Record] = [
        {
            "file": it.file_name,
            "batch": it.batch_id,
            "sha256": it.file_sha256,
            "bytes": it.file_bytes,
            "control totals": _result(it),
        }
        for it in book.files
    ]
    show_list(files, as_json=False, nothing="No file of accounts was sent.")


def _result(file: models.SentBookAnswer) -> str:
    result = _describe(file.control_totals_differing, file.control_totals_as_given)
    return f"{result}, sent again" if file.control_totals_differing and file.is_superseded else result


def _describe(differing: int | None, as_given: bool | None) -> str:
    """Return how the supplier's totals of a file compare with the file."""
    if differing is None:
        return "not given"
    if differing:
        return f"{differing} differ from the file"
    return "as in the file" if as_given else "as far as the file can be read"
