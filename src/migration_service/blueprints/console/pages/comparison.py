"""The comparison of two batches of a supplier."""

from typing import Any
from uuid import UUID

from flask import Blueprint, render_template, request

from migration_service.blueprints.console.access import batch_of
from migration_service.blueprints.console.counting import keep
from migration_service.blueprints.requests.paging import SHOWN
from migration_service.blueprints.requests.resources import resources
from migration_service.services.batches.control import report_batch
from migration_service.services.batches.results.listing import list_batches
from migration_service.services.reporting import comparison
from migration_service.states import BatchKind

blueprint = Blueprint("comparison", __name__, url_prefix="/batches/<uuid:batch_id>/compare")


@blueprint.get("/")
def show(batch_id: UUID) -> str:
    """Show what a batch has mended and broken since another one: by default the one before it."""
    before = request.args.get("before", type=UUID)
    values: dict[str, Any] = {}
    with resources().Session.begin() as session:
        batch = report_batch(session, batch_of(session, batch_id))
        alike = list_batches(
            session,
            organisation_id=None,
            import_supplier=batch.import_supplier,
            kind=BatchKind(batch.kind),
            limit=SHOWN,
        )
        others = [it for it in alike if it.batch_id != batch_id and it.lines_removed_at is None]
        before = before or next((it.batch_id for it in others if it.batch_id < batch_id), None)
        if before:
            values["before"] = report_batch(session, batch_of(session, before))
            comparison.get_batches_to_compare(session, str(before), str(batch_id), organisation_id=None)
            name = f"compared:{before}:{batch_id}"
            values["compared"], _counted_at = keep(
                session, name, dict[str, Any], lambda own: comparison.compare_batches(own, before, batch_id)
            )
    return render_template("comparison.html", batch=batch, others=others, chosen=before, **values)
