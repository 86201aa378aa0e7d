"""`migration-service audit`."""

import csv
import sys
from datetime import UTC, datetime
from typing import Any

import click

from migration_payloads.schemas.json import encode_json
from migration_service.cli import output
from migration_service.cli.options import Moment
from migration_service.cli.session import open_session, read_settings
from migration_service.services.audit.chain import read_heads, verify_chain
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.audit.trail import FIELDS, TrailFilter, read_trail, stream_trail
from migration_service.states import AuditOutcome

_moment = Moment(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"], "2027-03-01 or 2027-03-01T06:00:00Z")
_filtered = output.together(
    click.option("--since", type=_moment, help="From this moment on (UTC)."),
    click.option("--until", type=_moment, help="Before this moment (UTC)."),
    click.option("--organisation", metavar="NAME", help="Only entries about this organisation."),
    click.option(
        "--actor",
        metavar="TEXT",
        help="Only entries by this actor: the prefix of an API key, an operator or a system user.",
    ),
    click.option("--action", metavar="TEXT", help="Only entries of this kind, such as api_key.issued."),
    click.option("--request-id", metavar="TEXT", help="Only entries of this request or command."),
    click.option("--refused", is_flag=True, help="Only entries about what was refused or failed."),
    click.option(
        "--account",
        nargs=2,
        metavar="SUPPLIER NUMBER",
        help="Only entries about the account with this external number.",
    ),
)


@click.group()
def audit() -> None:
    """Show, export and verify the audit: who did what, when and from where."""


@audit.command("list")
@_filtered
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many entries at most."
)
@click.option("--cursor", metavar="TEXT", help="Continue after the page that printed this cursor.")
@output.json_option
def list_some(*, limit: int, cursor: str | None, as_json: bool, **filters: Any) -> None:
    """List what was done, newest first."""
    with open_session(read_settings()) as session:
        records, following = read_trail(session, _wanted(filters), limit=limit, cursor=cursor)
    output.show_list(records, as_json, nothing="The audit has no such entries.")
    if following:
        click.echo(f"There is more: --cursor '{following}'", err=True)


@audit.command()
@_filtered
@click.option(
    "--format",
    "kind",
    type=click.Choice(["ndjson", "csv"]),
    default="ndjson",
    show_default=True,
    help="One JSON object per line, or CSV with every value quoted.",
)
def export(kind: str, **filters: Any) -> None:
    """Write everything that was done to standard output, newest first."""
    wanted = _wanted(filters)
    with open_session(read_settings()) as session:
        named = {name: str(value) for name, value in filters.items() if value}
        record(session, AuditAction.AUDIT_EXPORTED, "audit", kind, details=_without_account(named))
        session.flush()
        writer = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
        if kind == "csv":
            writer.writerow(FIELDS)
        for entry in stream_trail(session, wanted):
            if kind == "csv":
                writer.writerow(_cell(value) for value in entry.values())
            else:
                output.show_json(entry)


@audit.command()
@click.option(
    "--head",
    metavar="SHA256|FILE",
    help="A head that was kept outside of the database, or a file with a day and a head in each line, as "
    "that of MIGRATION_SERVICE_AUDIT_HEAD_FILE, which is taken without this option.",
)
@output.json_option
def verify(head: str | None, as_json: bool) -> None:
    """Recompute the hashes of all days. The exit status is 1 if an entry was changed, added or removed.

    The head of each day is in the log of the workers. Comparing one with the chain also reveals a chain that
    was rebuilt from scratch.

    A gap is no problem of the chain: another server, or a backup, took over without the newest entries.
    """
    settings = read_settings()
    kept = head or settings.audit_head_file
    with open_session(settings) as session:
        found = verify_chain(session, read_heads(kept) if kept else ())
    result = {
        **output.pick(found, "days", "entries", "removed_days", "head"),
        "gaps": found.gaps if as_json else "\n".join(found.gaps) or "none",
        "problems": found.problems if as_json else "\n".join(found.problems) or "none",
    }
    output.show_record(result, as_json)
    if found.problems:
        sys.exit(1)


def _wanted(filters: dict[str, Any]) -> TrailFilter:
    return TrailFilter(
        since=_in_utc(filters["since"]),
        until=_in_utc(filters["until"]),
        **{name: filters[name] for name in ("organisation", "actor", "action", "request_id")},
        outcome=AuditOutcome.REFUSED if filters["refused"] else None,
        account=filters["account"] or None,
    )


def _in_utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment else None


def _without_account(filters: dict[str, str]) -> dict[str, str]:
    # The audit does not record account numbers.
    return {name: "given" if name == "account" else value for name, value in filters.items()}


def _cell(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case dict():
            return output.escape_json(encode_json(value).decode())
        case str() if sys.stdout.isatty():
            return output.escape_controls(value)
    return value
