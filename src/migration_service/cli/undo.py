"""`migration-service undo`."""

import sys
import time
from dataclasses import asdict
from typing import Any

import click
from sqlalchemy.orm import Session

from migration_service.cli.batch_results import format_option
from migration_service.cli.deciding import BY, WORDS
from migration_service.cli.output import (
    Record,
    count,
    json_option,
    pick,
    show_done,
    show_json,
    show_list,
    show_record,
    together,
    write_piece,
)
from migration_service.cli.session import open_session, open_sessions, read_settings
from migration_service.cli.workers import tell_undo_workers
from migration_service.formats import ResultFormat
from migration_service.services.access.operators import OperatorRole
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.undo.orders import UndoOrder, get_batch_to_undo, get_wave_to_undo
from migration_service.services.undo.preview import preview_undo
from migration_service.services.undo.reading import (
    UndoReport,
    get_undo,
    list_undos,
    report_undo,
    stream_outcomes,
)
from migration_service.services.undo.starting import cancel_undo, require_not_live, start_undo
from migration_service.states import UndoBlocker, UndoOutcome, UndoState

#: Seconds between two reports with `--watch`.
_PAUSE = 0.5

# Arguments and options that choose accounts.
_accounts = together(
    click.argument("supplier"),
    click.argument("external_account_numbers", nargs=-1),
    click.option("--batch", "batch_id", metavar="ID", help="All accounts that this batch created."),
    click.option(
        "--wave",
        type=(str, click.IntRange(1)),
        metavar="PLAN_ID NUMBER",
        help="All accounts that this wave created.",
    ),
)


@click.group()
def undo() -> None:
    """Undo imports before go-live: remove created accounts and make them pending again."""


@undo.command()
@_accounts
@json_option
def preview(*, as_json: bool, **accounts: Any) -> None:
    """Show how many accounts of SUPPLIER an undo would remove, and what blocks the others.

    Nothing is changed. Name the accounts, or the batch or the wave that created them.
    """
    with open_session(read_settings()) as session:
        found = preview_undo(session, _read_order(session, **accounts))
    if as_json:
        show_json(found)
        return
    record = asdict(found)
    blockers = record.pop("blockers")
    show_record({name: value for name, value in record.items() if value is not None}, as_json=False)
    rows = [item | {"examples": ", ".join(item["examples"])} for item in blockers]
    show_list(rows, as_json=False, nothing="Nothing blocks any of them.")


@undo.command()
@_accounts
@click.option("--reason", required=True, type=WORDS, help="The reason. It is kept: no personal data.")
@BY
@click.option(
    "--override",
    "overrides",
    multiple=True,
    type=click.Choice([blocker.value for blocker in UndoBlocker if blocker.may_be_overridden]),
    help="Undo accounts although this blocks them. Can be repeated.",
)
@click.option("--watch", "watches", is_flag=True, help="Wait until the undo has ended.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def start(*, watches: bool, yes: bool, as_json: bool, **wanted: Any) -> None:
    """Undo the import of accounts of SUPPLIER, or of all accounts that a batch or a wave created.

    Workers remove each account with all its data. Its import is pending again, its number is never reused,
    and unsent e-mails are withdrawn. A blocked account is kept, and its outcome says why: see `undo preview`.
    If a wave is undone, its plan waits until the undo has ended. Then the wave is reconciled again, and waits
    for a person's decision.

    With --watch, the exit status is 0 if every account was undone, and 1 otherwise.
    """
    settings = read_settings()
    with open_sessions(settings) as sessions:
        with sessions.begin() as session:
            order = _read_order(session, **wanted)
            if not yes:
                _confirm(session, order)
            undo_id = str(start_undo(session, order, role=OperatorRole.ADMINISTER))
        tell_undo_workers(settings, sessions)
        while watches:
            with sessions.begin() as session:
                report = report_undo(session, get_undo(session, undo_id, organisation_id=None))
            if report.state != UndoState.RUNNING:
                _show_report(report, as_json)
                nothing = dict.fromkeys(map(str, UndoOutcome), 0)
                sys.exit(0 if report.counts == nothing | {UndoOutcome.REVERTED: report.accounts} else 1)
            time.sleep(_PAUSE)
    show_done({"undo_id": undo_id}, as_json, f"Undo {undo_id} was started: undo show {undo_id}")


def _confirm(session: Session, order: UndoOrder) -> None:
    require_not_live(session, order.supplier.id)
    found = preview_undo(session, order)
    if not found.accounts:  # what follows refuses it, and says why
        return
    counts = {item.code for item in found.blockers} - order.overrides
    blocked = f", {count(found.accounts - found.revertible, 'account')} blocked" if counts else ""
    click.confirm(
        f"Undo the import of {count(found.accounts, 'account')} of {order.supplier.code!r}{blocked}?",
        abort=True,
        err=True,
    )


@undo.command("list")
@click.option("--supplier", metavar="CODE", help="Only undos of this import supplier.")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="How many undos at most."
)
@json_option
def list_all(supplier: str | None, limit: int, as_json: bool) -> None:
    """List undos, newest first."""
    with open_session(read_settings()) as session:
        found = list_undos(session, organisation_id=None, import_supplier=supplier, limit=limit)
    names = ("undo_id", "import_supplier", "batch_id", "state", "accounts", "started_by", "created_at")
    show_list([pick(report, *names) for report in found], as_json, nothing="Nothing has been undone yet.")


@undo.command()
@click.argument("undo_id")
@json_option
def show(undo_id: str, as_json: bool) -> None:
    """Show the progress of the undo UNDO_ID."""
    with open_session(read_settings()) as session:
        report = report_undo(session, get_undo(session, undo_id, organisation_id=None))
    _show_report(report, as_json)


def _show_report(report: UndoReport, as_json: bool) -> None:
    record: Record = pick(report, *report.__slots__)
    if not as_json:
        kept = [f"{number} {code}" for code, number in (report.kept_counts or {}).items()]
        counts = {name.lower(): number for name, number in (report.counts or {}).items()}
        shown = {name: value for name, value in record.items() if value and not name.endswith("counts")}
        record = shown | counts | ({"reasons": kept} if kept else {})
    show_record(record, as_json)


@undo.command()
@click.argument("undo_id")
@click.option(
    "--outcome",
    type=click.Choice([outcome.value for outcome in UndoOutcome], case_sensitive=False),
    help="Only accounts with this outcome.",
)
@format_option
def results(undo_id: str, outcome: str | None, result_format: str) -> None:
    """Write the outcome of each account of the undo UNDO_ID to standard output."""
    with open_sessions(read_settings()) as sessions:
        with sessions.begin() as session:
            found = get_undo(session, undo_id, organisation_id=None).id
        wanted = UndoOutcome(outcome) if outcome else None
        for piece in stream_outcomes(sessions, found, ResultFormat(result_format), wanted):
            write_piece(piece)


@undo.command()
@click.argument("undo_id")
@json_option
def cancel(undo_id: str, as_json: bool) -> None:
    """Cancel the undo UNDO_ID permanently. Accounts that were already undone are not restored."""
    with open_session(read_settings()) as session:
        found = get_undo(session, undo_id, organisation_id=None)
        cancel_undo(session, found)
    show_done({"undo_id": undo_id, "state": found.state}, as_json, f"Undo {undo_id} is now {found.state}.")


def _read_order(
    session: Session,
    *,
    supplier: str,
    external_account_numbers: tuple[str, ...],
    batch_id: str | None,
    wave: tuple[str, int] | None,
    reason: str = "",
    by: str | None = None,
    overrides: tuple[str, ...] = (),
) -> UndoOrder:
    if sum((bool(external_account_numbers), batch_id is not None, wave is not None)) != 1:
        raise click.UsageError("Expected account numbers, --batch or --wave: give exactly one of them.")
    found = get_import_supplier(session, supplier, organisation_id=None)
    batch = None
    if batch_id is not None:
        batch = get_batch_to_undo(session, batch_id, found)
    elif wave is not None:
        batch = get_wave_to_undo(session, *wave, found)
    return UndoOrder(
        supplier=found,
        batch=batch,
        external_account_numbers=external_account_numbers,
        reason=reason,
        by=by,
        overrides=frozenset(map(UndoBlocker, overrides)),
    )
