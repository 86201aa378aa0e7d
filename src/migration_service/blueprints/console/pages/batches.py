"""The list of batches, and the page of a batch with its progress and its errors."""

from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, request
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.blueprints.console.access import batch_of, may, visible_codes
from migration_service.blueprints.console.charts import draw_rate
from migration_service.blueprints.console.counting import look_at_retryable
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.blueprints.console.polling import BUSY, CALM, page
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.console.standstill import explain_standstill
from migration_service.blueprints.requests.resources import resources
from migration_service.models import Wave
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.batches.control import report_batch
from migration_service.services.batches.results.counts import list_work
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.batches.results.listing import count_batches, list_batches
from migration_service.states import BatchKind, BatchState, LineStatus

blueprint = Blueprint("batches", __name__, url_prefix="/batches")

_OPEN = (BatchState.RUNNING, BatchState.WAITING)
_COLUMNS = (
    "batch_id import_supplier operations_team_name name file_name kind mode state reason created_at "
    "started_at finished_at lines undone " + " ".join(f"counts.{it}" for it in LineStatus)
)


@list_at(blueprint, "/")
def show_all() -> Response:
    """List batches, newest first."""
    wanted: dict[str, Any] = {
        "organisation_id": None,
        "import_supplier": request.args.get("supplier") or None,
        "kind": request.args.get("kind", type=BatchKind),
        "state": request.args.get("state", type=BatchState),
    }

    def more(session: Session, _found: list[Any]) -> dict[str, Any]:
        return {
            "suppliers": visible_codes(session),
            "totals": count_batches(session, **wanted),
            "kinds": list(BatchKind),
            "states": list(BatchState),
        }

    find = partial(list_batches, **wanted)
    return show_list("batches.html", find, _COLUMNS, more, key="batch_id", read_key=UUID)


@blueprint.get("/<uuid:batch_id>/")
def show(batch_id: UUID) -> Response:
    """Show the progress of a batch, and the errors of its lines."""
    with resources().Session.begin() as session:
        batch = batch_of(session, batch_id)
        report = report_batch(session, batch)
        is_live = has_gone_live(session, batch.import_supplier_id)
        work = list_work(session, batch_id)
        wave = session.scalar(select(Wave).where(Wave.batch_id == batch_id))
        still = explain_standstill(session, report)
        has_failed = report.counts[LineStatus.FAILED] > 0 and report.lines_removed_at is None
        retryable = 0
        if has_failed and report.state not in _OPEN and may("batch_actions.retry"):
            retryable = look_at_retryable(session, batch, ResultFilter()).may_pass
    moves = report.state in _OPEN
    return page(
        "batch.html",
        poll=(BUSY if report.state == BatchState.RUNNING else CALM) if moves else None,
        batch=report,
        is_live=is_live,
        retryable=retryable,
        wave=wave,
        still=still,
        remedy_of=remedy_of,
        rate=draw_rate(work, BatchState(report.state), datetime.now(UTC), report.brake),
    )
