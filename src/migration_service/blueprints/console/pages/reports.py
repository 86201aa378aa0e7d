"""The report of a supplier, a batch, a wave plan or a wave, as one file that can be shared or printed."""

from collections.abc import Iterator
from uuid import UUID

from flask import Blueprint, Response

from migration_service.blueprints.console.access import batch_of, plan_of, supplier_of
from migration_service.blueprints.console.counting import is_large, keep
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.requests.resources import resources
from migration_service.services.reporting.report import make_report
from migration_service.services.reporting.report_page import render_report
from migration_service.services.reporting.report_subject import (
    ReportKind,
    ReportSubject,
    subject_of_batch,
    subject_of_plan,
)

blueprint = Blueprint("reports", __name__)

#: Seconds for which a page waits for the comparison.
_SECONDS = 10.0


@blueprint.get("/suppliers/<code>/report.html", endpoint="of_supplier")
@blueprint.get("/batches/<uuid:batch_id>/report.html", endpoint="of_batch")
@blueprint.get("/waves/<uuid:plan_id>/report.html", endpoint="of_plan")
@blueprint.get("/waves/<uuid:plan_id>/<int:number>/report.html", endpoint="of_wave")
def send(
    code: str | None = None,
    batch_id: UUID | None = None,
    plan_id: UUID | None = None,
    number: int | None = None,
) -> Response:
    """Send the report of a supplier, a batch, a wave plan, or a wave with its number."""
    sessions, target = resources().Session, str(code or batch_id or plan_id)
    with sessions.begin() as session:
        if code is not None:
            subject = ReportSubject(ReportKind.SUPPLIER, supplier_of(session, code))
        elif batch_id is not None:
            subject = subject_of_batch(session, batch_of(session, batch_id))
        else:
            subject = subject_of_plan(session, plan_of(session, UUID(target)), number)
        name = f"report-{target}.html" if number is None else f"report-{target}-{number}.html"

        def make(seconds: float = _SECONDS) -> str:
            return render_report(make_report(sessions, subject, seconds=seconds))

        pieces: Iterator[bytes] = (make().encode() for _ in (name,))
        if is_large(session):  # many accounts are compared on request, on the page of the reconciliation
            kept, _counted_at = keep(session, name, str, lambda _own: make(0.0))
            pieces = iter([kept.encode()])
    # A file rather than a page, because it contains its stylesheet, which our pages may not.
    return send_file(pieces, name, "text/html")
