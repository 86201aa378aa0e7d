"""`migration-service reconcile`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from sqlalchemy.orm import Session, sessionmaker

from migration_service.cli.output import json_option, show_list
from migration_service.cli.session import CannotRunError, RefusedError, open_sessions, read_settings
from migration_service.schemas.json import encode_json
from migration_service.services.batches.steering import get_batch_to_reconcile
from migration_service.services.reporting.reconciliation import (
    AccountDifference,
    Difference,
    Totals,
    find_differences,
    stream_id_map,
)
from migration_service.services.setup.suppliers import get_import_supplier

_SHOWN = 20


@click.command()
@click.argument("supplier")
@click.option("--batch", "batch_id", metavar="ID", help="Only the accounts on the lines of this batch.")
@click.option(
    "--id-map",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.csv",
    help="Also write the old and the new number of every account.",
)
@json_option
def reconcile(supplier: str, batch_id: str | None, id_map: Path | None, as_json: bool) -> None:
    """Compare what was staged for SUPPLIER with what was created.

    Counts and sums, exact to the cent, and each account that differs. The exit status is 0 where nothing
    does, 1 where something does, 2 where it could not run. With --json one line for each account that
    differs, and the totals last.
    """
    totals = Totals()
    with _nothing_is_refused(), open_sessions(read_settings()) as sessions:
        with sessions.begin() as session:
            found = get_import_supplier(session, supplier, organisation_id=None)
            wanted = get_batch_to_reconcile(session, batch_id, found)
        shown: list[AccountDifference] = []
        for account in find_differences(sessions, found.id, totals, batch_id=wanted):
            if as_json:
                click.echo(encode_json(account))
            elif len(shown) < _SHOWN:
                shown.append(account)
        if id_map is not None:
            _write_id_map(sessions, found.id, id_map)
    if as_json:
        click.echo(encode_json(totals.to_dict()))
    else:
        _show(totals, shown)
    sys.exit(1 if totals.differing else 0)


@contextmanager
def _nothing_is_refused() -> Iterator[None]:
    """1 means that something differs, so what cannot be reconciled at all is 2."""
    try:
        yield
    except RefusedError as error:
        raise CannotRunError(error.message) from error


def _write_id_map(sessions: sessionmaker[Session], import_supplier_id: int, file: Path) -> None:
    try:
        with file.open("wb") as stream:
            stream.writelines(stream_id_map(sessions, import_supplier_id))
    except OSError as error:
        raise CannotRunError(f"{file} cannot be written: {error.strerror}.") from error


def _show(totals: Totals, shown: list[AccountDifference]) -> None:
    rows: list[dict[str, Any]] = [
        {"measure": measure, "staged": staged, "created": created, "differs": staged != created or "-"}
        for measure, (staged, created) in totals.measures.items()
    ]
    show_list(rows, as_json=False, nothing="Nothing was staged.")
    if totals.skipped:
        click.echo(f"{totals.skipped} accounts are marked to be skipped, and in no total.")
    if totals.not_comparable:
        click.echo(f"{totals.not_comparable} accounts cannot be compared: their staged payload was removed.")
    if not totals.differing:
        click.echo("Clean: every account is as it was staged.")
        return
    click.echo(f"{totals.differing} accounts differ; the first of them (all with --json):\n")
    differing = [
        {**asdict(account), "differences": ", ".join(map(_sentence, account.differences))}
        for account in shown
    ]
    show_list(differing, as_json=False, nothing="")


def _sentence(difference: Difference) -> str:
    return f"{difference.measure}: {difference.staged} staged, {difference.created} created"
