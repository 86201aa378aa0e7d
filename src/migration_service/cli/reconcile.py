"""`migration-service reconcile`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.output import OutputPath, replacing
from migration_payloads.schemas.json import encode_json, finite
from migration_service.cli.book_totals import show_book
from migration_service.cli.output import count, json_option, show_json, show_list, show_record
from migration_service.cli.session import CannotRunError, RefusedError, open_sessions, read_settings
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.reconciliation.answer import describe_verdict
from migration_service.services.reconciliation.comparisons import (
    find_kept,
    get_batch_to_reconcile,
    start_comparison,
    stream_differing,
    wait_for_comparison,
)
from migration_service.services.reconciliation.created_accounts import stream_id_map
from migration_service.services.reconciliation.differences import NOT_COMPARED, AccountDifference
from migration_service.services.reconciliation.submitted import OpenItem, Submitted, find_open
from migration_service.services.reconciliation.verdict import Verdict, describe_problems, judge
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier

_Item = TypeVar("_Item")

#: For people: how many items of each kind, values of each account and characters of each value are shown.
_SHOWN, _VALUES, _WIDTH = 20, 5, 60
_SENT = ("sent", "refused", "waiting", "staged", "created", "skipped", "acknowledged", "open")


@click.command()
@click.argument("supplier")
@click.option("--batch", "batch_id", metavar="ID", help="Compare only the accounts of this batch.")
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
@json_option
def reconcile(
    supplier: str,
    *,
    batch_id: str | None,
    created_only: bool,
    id_map: Path | None,
    as_json: bool,
) -> None:
    """Compare what SUPPLIER sent with what was created.

    The first part counts what was sent, by outcome, and lists what is open: neither created nor skipped nor
    acknowledged (see `acknowledgements`). The second part compares every value of the created accounts with
    what was staged: counts and sums, exact to the cent, and the path of each value that differs. If the
    command is interrupted, workers finish the comparison, and the next command joins it.

    The last part shows where the money of the book is: in the file, refused, staged or created. With --batch,
    it also shows the supplier's control totals (see `batches control-totals`).

    The exit status is 0 if everything is clean, 1 if not, and 2 if the command could not run. The last lines
    say why something is not clean: something is open, or was removed while it was open; something differs,
    or could not be compared; money is unaccounted for; or a file that no later file replaces does not match
    its control totals. With --json, the output has one line for what was sent, one per open item, one per
    account that differs, one for the book, and one for the rest.
    """
    report = _Report(as_json)
    with _nothing_is_refused(), open_sessions(read_settings()) as sessions:
        with sessions.begin() as session:
            found = get_import_supplier(session, supplier, organisation_id=None)
            wanted = get_batch_to_reconcile(session, batch_id, found)
            comparison_id = start_comparison(session, found, wanted)[0].id
        wait_for_comparison(sessions, comparison_id)
        with sessions.begin() as session:
            verdict = judge(session, found.id, wanted)
            kept = find_kept(session, found.id, wanted)
            if as_json and verdict.sent.open:  # the texts of errors may repeat what was sent
                _record_reading(session, AuditAction.BATCH_RESULTS_READ, found)
        report.show_sent(verdict.sent)
        for item in find_open(sessions, found.id, batch_id=wanted):
            report.add_open(item)
        for account in stream_differing(sessions, kept) if kept else ():
            if account.values and not report.has_values:  # they are shown unmasked
                with sessions.begin() as session:
                    _record_reading(session, AuditAction.ACCOUNT_READ, found)
            report.add_difference(account)
        if id_map is not None:
            _write_id_map(sessions, found.id, id_map)
    if as_json:  # the rest is the last line
        show_json(finite({"book": verdict.book}))
    report.end(verdict)
    if not as_json:
        show_book(verdict.book)
        for sentence in describe_problems(verdict):
            click.echo(sentence)
    is_clean = not verdict.differing if created_only else verdict.is_clean
    sys.exit(0 if is_clean else 1)


def _record_reading(session: Session, action: AuditAction, supplier: KnownSupplier) -> None:
    owner = supplier.organisation_id
    record(session, action, "import_supplier", supplier.code, organisation_id=owner)


@contextmanager
def _nothing_is_refused() -> Iterator[None]:
    """Exit with 2 if the command is refused. 1 means that something is open or differs."""
    try:
        yield
    except RefusedError as error:
        raise CannotRunError(error.message) from error


def _write_id_map(sessions: sessionmaker[Session], import_supplier_id: int, file: Path) -> None:
    try:
        with replacing(file) as stream:
            stream.writelines(stream_id_map(sessions, import_supplier_id))
    except OSError as error:
        raise CannotRunError(f"{file} cannot be written: {error.strerror}.") from error


class _Report:
    """The printed report: every item immediately with `--json`, the first of each kind for people."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._open: list[OpenItem] = []
        self._differing: list[AccountDifference] = []
        self.has_values = False

    def show_sent(self, sent: Submitted) -> None:
        if self._as_json:
            show_json({"sent": sent})
            return
        show_record({name: getattr(sent, name) for name in _SENT}, as_json=False)
        if sent.staged_older_version or sent.created_older_version:
            click.echo(
                f"{sent.staged_older_version} staged and {sent.created_older_version} created accounts are "
                "older than a version that was sent later and refused."
            )
        if sent.lines_removed:
            click.echo(
                f"{sent.lines_removed} batch lines are no longer kept, so it is not known which of them were "
                "refused."
            )

    def add_open(self, item: OpenItem) -> None:
        self._add(item, self._open)

    def add_difference(self, account: AccountDifference) -> None:
        self.has_values |= bool(account.values)
        self._add(account, self._differing)

    def _add(self, item: _Item, shown: list[_Item]) -> None:
        if self._as_json:
            show_json(finite(item))
        elif len(shown) < _SHOWN:
            shown.append(item)

    def end(self, verdict: Verdict) -> None:
        if self._as_json:
            show_json(finite(describe_verdict(verdict)))
            return
        sent = verdict.sent
        if sent.open:
            click.echo(f"{count(sent.open, 'item')} open{_first(sent.open)}:\n")
            show_list([_row(item) for item in self._open], as_json=False, nothing="")
        else:
            click.echo("Nothing is open.")
        _show_created(verdict, self._differing)


def _first(number: int) -> str:
    return f", of which the first {_SHOWN} (all with --json)" if number > _SHOWN else ""


def _row(item: OpenItem) -> dict[str, Any]:
    errors = item.errors or []
    return {
        "account": item.external_account_number,
        "reason": item.reason,
        "batch": item.batch_id,
        "line": item.line_number,
        "errors": ", ".join(dict.fromkeys(str(error["code"]) for error in errors)) or None,
    }


def _show_created(verdict: Verdict, shown: list[AccountDifference]) -> None:
    totals = verdict.totals
    rows: list[dict[str, Any]] = [
        {
            "measure": it.measure,
            "staged": it.staged,
            "created": it.created,
            "differs": it.staged != it.created or "-",
        }
        for it in totals.list_measures()
    ]
    show_list(rows, as_json=False, nothing="No account was created.")
    if totals.differing:
        differ = "differs" if totals.differing == 1 else "differ"
        click.echo(f"{count(totals.differing, 'created account')} {differ}{_first(totals.differing)}:\n")
        differing = [row for account in shown for row in _rows(account)]
        show_list(differing, as_json=False, nothing="")
    elif rows:
        click.echo(totals.describe_clean())
    for batch_id, line_number in totals.named_lines:
        click.echo(f"Line {line_number} of batch {batch_id} cannot be compared.")
    click.echo("Not compared: " + "; ".join(NOT_COMPARED) + ".")


def _rows(account: AccountDifference) -> Iterator[dict[str, Any]]:
    """Yield a row for each value that differs, or for each measure if there are no values."""
    found: list[tuple[str, Any, Any]] = [(it.path, it.staged, it.created) for it in account.values]
    found = found or [(it.measure, it.staged, it.created) for it in account.differences]
    for path, staged, created in found[:_VALUES]:
        yield _difference(account, path, _text(staged), _text(created))
    more = len(found) - _VALUES
    if more > 0:
        yield _difference(account, f"and {count(more, 'more value')} (all with --json)", None, None)


def _difference(account: AccountDifference, path: str, staged: Any, created: Any) -> dict[str, Any]:
    numbers = {"account": account.external_account_number, "created_as": account.service_account_number}
    return {**numbers, "path": path, "staged": staged, "created": created}


def _text(value: Any) -> str | None:
    """Return a value as JSON, so that a text and a number look different. None if there is no value."""
    if value is None:
        return None
    text = encode_json(value).decode()
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
