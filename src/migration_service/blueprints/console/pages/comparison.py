"""The comparison of two batches of a supplier."""

from uuid import UUID

from flask import Blueprint, Response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from migration_service.blueprints.console.access import batch_of
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import CONTENT_TYPES
from migration_service.formats import ResultFormat
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.control import report_batch
from migration_service.services.batches.results.listing import list_batches
from migration_service.services.reporting import comparison
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.states import AccountChange

blueprint = Blueprint("comparison", __name__, url_prefix="/batches/<uuid:batch_id>/compare")


@blueprint.get("/")
def choose(batch_id: UUID) -> str | AnyResponse:
    """Choose the batch to compare with, and continue to the comparison."""
    before = request.args.get("before", type=UUID)
    if before:
        return redirect(url_for("comparison.show", batch_id=batch_id, before=before))
    with resources().Session.begin() as session:
        batch = batch_of(session, batch_id)
        code = get_import_supplier_by_id(session, batch.import_supplier_id).code
        others = list_batches(session, organisation_id=None, import_supplier=code)
        report = report_batch(session, batch)
    others = [it for it in others if it.batch_id != batch_id and it.lines_removed_at is None]
    return render_template("compare.html", batch=report, others=others)


@blueprint.get("/<uuid:before>/")
def show(batch_id: UUID, before: UUID) -> str:
    """Show which codes came, went and grew, and how many accounts are newly broken or mended."""
    with resources().Session.begin() as session:
        batches = [batch_of(session, it) for it in (before, batch_id)]
        comparison.get_batches_to_compare(session, str(before), str(batch_id), organisation_id=None)
        compared = comparison.compare_batches(session, before, batch_id)
        reports = [report_batch(session, it) for it in batches]
    return render_template("comparison.html", before=reports[0], batch=reports[1], compared=compared)


@blueprint.get("/<uuid:before>/accounts.csv")
def accounts(batch_id: UUID, before: UUID) -> Response:
    """Send the accounts that fail in one of the two batches, all or those with a change."""
    given = request.args.get("change")
    changes = [AccountChange(given)] if given in set(AccountChange) else list(AccountChange)
    sessions = resources().Session
    with sessions.begin() as session:
        for batch in (batch_of(session, before), batch_of(session, batch_id)):
            owner = batch.organisation_id
            record(session, AuditAction.BATCH_RESULTS_READ, "batch", batch.id, organisation_id=owner)
        comparison.get_batches_to_compare(session, str(before), str(batch_id), organisation_id=None)
    found = comparison.find_changed_accounts(sessions, before, batch_id, changes)
    pieces = comparison.stream_changed_accounts(found, ResultFormat.CSV)
    return send_file(pieces, f"compared-{batch_id}.csv", CONTENT_TYPES[ResultFormat.CSV])
