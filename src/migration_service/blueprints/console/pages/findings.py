"""The errors of a batch: from a code to its paths, its lines, and the place in the payload."""

from typing import Any
from uuid import UUID

from flask import Blueprint, abort, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from migration_service.blueprints.console import masking
from migration_service.blueprints.console.access import batch_of, may
from migration_service.blueprints.console.counting import keep, look_at_retryable
from migration_service.blueprints.console.payload_view import view_payload
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas.paging import row_id
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.control import get_batch_with_lines, report_batch
from migration_service.services.batches.results.findings import (
    FoundPath,
    count_paths,
    find_line,
    find_neighbours,
    list_lines,
)
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.states import BatchKind, BatchState, LineStatus

blueprint = Blueprint("findings", __name__, url_prefix="/batches/<uuid:batch_id>")

#: The states in which failed lines can be retried.
_RETRIED = frozenset(BatchState) - {BatchState.CANCELLED}


@blueprint.get("/codes/<code>/")
def show_code(batch_id: UUID, code: str) -> str:
    """Show the paths and values of a batch's errors (or warnings) with a certain code."""
    warnings = request.args.get("kind") == "warning"
    path = request.args.get("path") or None
    wanted, listing = ResultFilter(code=code, path=path), Listing.shown(row_id)
    with resources().Session.begin() as session:
        batch = batch_of(session, batch_id)
        get_batch_with_lines(session, str(batch_id), organisation_id=None)
        report = report_batch(session, batch)
        name = f"paths:{batch_id}:{warnings}:{code}"
        paths, _counted_at = keep(
            session, name, list[FoundPath], lambda own: count_paths(own, batch_id, code, warnings=warnings)
        )
        lines, follow = list_lines(session, batch_id, wanted, after=listing.after or 0, limit=listing.limit)
        retryable = everything = 0
        if report.state in _RETRIED and may("batch_actions.retry"):
            found = look_at_retryable(session, batch, wanted)
            retryable, everything = found.may_pass, found.everything
    if not paths:
        abort(404)
    return render_template(
        "code.html",
        batch=report,
        code=code,
        warnings=warnings,
        remedy=remedy_of(code),
        paths=paths,
        path=path,
        retryable=retryable,
        everything=everything,
        repeats_personal=masking.repeats_personal,
        lines=listing.page(lines, "line_number", follow=follow),
        listing=listing,
    )


@blueprint.get("/lines/")
def show_lines(batch_id: UUID) -> str:
    """List the lines of a batch, all or those of a status."""
    status, listing = request.args.get("status", type=LineStatus), Listing.shown(row_id)
    wanted = ResultFilter(status)
    with resources().Session.begin() as session:
        report = report_batch(session, batch_of(session, batch_id))
        lines, follow = list_lines(session, batch_id, wanted, after=listing.after or 0, limit=listing.limit)
    file = url_for("downloads.results", batch_id=batch_id, status=status)
    return render_template(
        "lines.html",
        batch=report,
        status=status,
        found=listing.page(lines, "line_number", follow=follow),
        file=file if may("downloads.results") and not report.lines_removed_at else None,
        listing=listing,
    )


@blueprint.get("/lines/<int:line_number>/")
def show_line(batch_id: UUID, line_number: int) -> str:
    """Show a line as it was sent, with the wrong places marked."""
    with resources().Session.begin() as session:
        report = report_batch(session, batch_of(session, batch_id))
        found = find_line(session, batch_id, line_number)
        neighbours: tuple[int | None, int | None] = (None, None)
        if found is not None and not BatchKind(report.kind).is_added_data:
            status = LineStatus(found.line.status)
            neighbours = find_neighbours(session, batch_id, line_number, status)
    if found is None:
        abort(404)
    shown = masking.is_revealed(_subject(batch_id, line_number))
    findings = [(item, "error") for item in found.line.errors]
    findings += [(item, "warning") for item in found.line.warnings]
    payload = found.payload if shown else masking.mask(found.payload)
    return render_template(
        "line.html",
        batch=report,
        line=found.line,
        neighbours=neighbours,
        text=found.text if shown else None,
        has_text=found.text is not None,
        payload_tree=view_payload(payload, findings) if payload is not None else None,
        findings=[_Shown(item, kind, shown) for item, kind in findings],
        is_shown=shown,
    )


@blueprint.post("/lines/<int:line_number>/reveal/")
def reveal_line(batch_id: UUID, line_number: int) -> Response:
    """Show the personal data of a line for some minutes, and record it in the audit."""
    with resources().Session.begin() as session:
        batch = batch_of(session, batch_id)
        record(
            session,
            AuditAction.BATCH_RESULTS_READ,
            "batch",
            batch.id,
            organisation_id=batch.organisation_id,
            details={"line": line_number},
        )
    masking.reveal(_subject(batch_id, line_number))
    return redirect(url_for("findings.show_line", batch_id=batch_id, line_number=line_number), 303)


class _Shown:
    """A finding as the page shows it. Its sentence may repeat the payload, so it can be masked."""

    def __init__(self, item: dict[str, Any], kind: str, is_shown: bool) -> None:
        self.code, self.attr, self.kind = str(item["code"]), item.get("attr"), kind
        self.remedy = remedy_of(self.code)
        masked = not is_shown and masking.repeats_personal(self.code, self.attr or "")
        self.detail = None if masked else str(item["detail"])


def _subject(batch_id: UUID, line_number: int) -> str:
    return f"line {batch_id} {line_number}"
