"""The audit: who did what, when and from where."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice

from flask import Blueprint, Response, render_template, request

from migration_payloads.moments import write_moments
from migration_payloads.schemas.json import encode_json
from migration_service.blueprints.console.access import current_operator
from migration_service.blueprints.console.lists import write_rows
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import CONTENT_TYPES
from migration_service.formats import ResultFormat
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.audit.trail import FIELDS, TrailFilter, read_trail, stream_trail
from migration_service.states import AuditOutcome

blueprint = Blueprint("audit", __name__, url_prefix="/audit")

#: Without an account, every request is listed for this time only, because many large tables are read.
_RECENT = timedelta(hours=1)
#: Entries that an export sends together.
_EXPORTED = 500


@blueprint.get("/")
def show() -> str:
    """Show the audit, newest first: what people did, or every request."""
    wanted, listing = _wanted(), Listing.shown(str)
    with resources().Session.begin() as session:
        entries, listing.cursor = read_trail(session, wanted, limit=listing.limit, cursor=listing.after)
    return render_template(
        "audit.html",
        entries=entries,
        refused=sum(entry["outcome"] == AuditOutcome.REFUSED for entry in entries),
        listing=listing,
        wanted=wanted,
        actions=[action.value for action in AuditAction],
        everything=not wanted.only_entries,
    )


@blueprint.get("/export.<any(ndjson, csv):kind>")
def export(kind: str) -> Response:
    """Send the filtered entries of the audit. The export is recorded in the audit, too."""
    wanted, sessions = _wanted(), resources().Session
    with sessions.begin() as session:
        filters = {name: str(value) for name, value in asdict(wanted).items() if value and name != "account"}
        record(session, AuditAction.AUDIT_EXPORTED, "audit", "console", details=filters)

    def pieces() -> Iterator[bytes]:
        with sessions.begin() as session:
            entries = stream_trail(session, wanted)
            if kind == ResultFormat.CSV:
                yield write_rows([FIELDS])
            while found := [*islice(entries, _EXPORTED)]:
                if kind == ResultFormat.CSV:
                    yield write_rows(it.values() for it in found)
                else:
                    yield b"".join(encode_json(write_moments(it)) + b"\n" for it in found)

    return send_file(pieces(), f"audit.{kind}", CONTENT_TYPES[ResultFormat(kind)])


def _wanted() -> TrailFilter:
    given = request.args
    everything = given.get("kind") == "everything"
    account = tuple(given.get("account", "").split(" ", 1))
    return TrailFilter(
        since=_day(given.get("since")) or (datetime.now(UTC) - _RECENT if everything else None),
        until=_day(given.get("until"), end=True),
        actor=given.get("actor") or None,
        action=given.get("action") or None,
        request_id=given.get("request_id") or None,
        outcome=AuditOutcome.REFUSED if given.get("refused") else None,
        account=(account[0], account[1]) if len(account) == 2 else None,
        organisation_ids=current_operator().organisation_ids,
        only_entries=not everything,
    )


def _day(text: str | None, *, end: bool = False) -> datetime | None:
    try:
        day = datetime.strptime(text or "", "%Y-%m-%d").replace(tzinfo=UTC)
        return day + timedelta(days=1) if end else day
    except (ValueError, OverflowError):
        return None
