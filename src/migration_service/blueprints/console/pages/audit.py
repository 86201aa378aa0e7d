"""The audit: who did what, when and from where. `migration-service audit` has every request, too."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice

from flask import Blueprint, Response, render_template, request

from migration_service.blueprints.console.access import current_operator
from migration_service.blueprints.console.lists import PAGE, write_rows
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.audit.trail import FIELDS, TrailFilter, read_trail, stream_trail
from migration_service.states import AuditOutcome

blueprint = Blueprint("audit", __name__, url_prefix="/audit")


@blueprint.get("/")
def show() -> str:
    """Show what people did, newest first."""
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
    )


@blueprint.get("/export.csv")
def export() -> Response:
    """Send the filtered entries of the audit. The export is recorded in the audit, too."""
    wanted, sessions = _wanted(), resources().Session
    with sessions.begin() as session:
        filters = {name: str(value) for name, value in asdict(wanted).items() if value}
        record(session, AuditAction.AUDIT_EXPORTED, "audit", "console", details=filters)

    def pieces() -> Iterator[bytes]:
        with sessions.begin() as session:
            entries = stream_trail(session, wanted)
            yield write_rows([FIELDS])
            while found := [*islice(entries, PAGE)]:
                yield write_rows(it.values() for it in found)

    return send_file(pieces(), "audit.csv")


def _wanted() -> TrailFilter:
    given = request.args
    return TrailFilter(
        since=_day(given.get("since")),
        until=_day(given.get("until"), end=True),
        actor=given.get("actor") or None,
        action=given.get("action") or None,
        request_id=given.get("request_id") or None,
        outcome=AuditOutcome.REFUSED if given.get("refused") else None,
        organisation_ids=current_operator().organisation_ids,
        only_entries=True,
    )


def _day(text: str | None, *, end: bool = False) -> datetime | None:
    try:
        day = datetime.strptime(text or "", "%Y-%m-%d").replace(tzinfo=UTC)
        return day + timedelta(days=1) if end else day
    except (ValueError, OverflowError):
        return None
