"""`migration-service go-live`."""

from datetime import UTC, datetime

import click
from sqlalchemy.orm import Session, sessionmaker

from migration_service.cli.options import BY, Moment
from migration_service.cli.output import count, json_option, show_done
from migration_service.cli.session import open_sessions, read_settings
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.undo.go_live import (
    Gate,
    GoLiveOrder,
    GoLivePreview,
    preview_go_live,
    start_go_live,
)
from migration_service.services.undo.open_work import find_open_work


@click.command("go-live")
@click.argument("supplier")
@click.option(
    "--at",
    type=Moment(["%Y-%m-%dT%H:%M:%S%z"], "2027-03-01T06:00:00Z"),
    metavar="MOMENT",
    help="The moment of go-live, such as 2027-03-01T06:00:00Z.  [default: now]",
)
@BY
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--in-the-past", "may_be_past", is_flag=True, help="With --yes: allow MOMENT to be in the past."
)
@json_option
def go_live(
    *, supplier: str, at: datetime | None, by: str | None, yes: bool, may_be_past: bool, as_json: bool
) -> None:
    """Set when SUPPLIER goes live. From then on its imports cannot be undone.

    It first shows what is still open and how many accounts are affected, and asks for confirmation. A future
    date can be changed until it is reached. Then it is final.
    """
    settings = read_settings()
    gate = Gate.of(settings)
    with open_sessions(settings) as sessions:
        with sessions.begin() as session:
            known = get_import_supplier(session, supplier, organisation_id=None)
            found = preview_go_live(session, GoLiveOrder(supplier=known, gate=gate, at=at))
        if yes and found.is_past and not may_be_past:
            at_then = f"{_write(found.live_at)} is in the past"
            raise click.UsageError(f"{at_then}. Add --in-the-past if {supplier!r} did go live then.")
        if not yes:
            _show_open(sessions, supplier)
            click.confirm(f"{_describe(found, is_now=at is None)} Continue?", abort=True, err=True)
        with sessions.begin() as session:
            order = GoLiveOrder(supplier=known, gate=gate, at=at, may_be_past=found.is_past, by=by)
            live_at = start_go_live(session, order).live_at
    record = {"import_supplier": supplier, "live_at": live_at, "accounts": found.accounts}
    verb = "went" if found.is_past or at is None else "goes"
    show_done(record, as_json, f"Import supplier {supplier!r} {verb} live at {_write(live_at)}.")


def _show_open(sessions: sessionmaker[Session], supplier: str) -> None:
    """Print what of the supplier is still open, before the question."""
    with sessions.begin() as session:
        found = find_open_work(session, supplier)
    click.echo("Still open:" if found else "Nothing is open.", err=True)
    for what, number in found:
        click.echo(f"{number:>9,}  {what}", err=True)


def _describe(found: GoLivePreview, *, is_now: bool) -> str:
    emails = f"{count(found.emails, 'held e-mail')} to customers will be sent. " if found.emails else ""
    return f"{emails}{_describe_end(found, is_now=is_now)}"


def _describe_end(found: GoLivePreview, *, is_now: bool) -> str:
    supplier, at = f"import supplier {found.import_supplier!r}", _write(found.live_at)
    accounts = count(found.accounts, "account")
    if is_now:
        return f"From now on, {supplier} is live, and its {accounts} can never be undone."
    if found.is_past:
        return f"{at} is in the past. If {supplier} went live then, its {accounts} can never be undone."
    instead = f" instead of at {_write(found.before)}" if found.before else ""
    return (
        f"From {at}{instead}, {supplier} is live, and none of its accounts can be undone. "
        f"It has {accounts} now."
    )


def _write(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
