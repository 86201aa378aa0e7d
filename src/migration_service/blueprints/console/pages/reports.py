"""The report of a supplier, a batch, a wave plan or a wave, as one file that can be shared or printed."""

from uuid import UUID

from flask import Blueprint, Response

from migration_service.blueprints.console.access import batch_of, plan_of, supplier_of
from migration_service.blueprints.requests.resources import resources
from migration_service.services.reporting.report import make_report
from migration_service.services.reporting.report_page import render_report
from migration_service.services.reporting.report_subject import ReportKind, find_subject

blueprint = Blueprint("reports", __name__)


@blueprint.get("/suppliers/<code>/report.html")
def of_supplier(code: str) -> Response:
    """Send the report of a supplier."""
    with resources().Session.begin() as session:
        supplier_of(session, code)
    return _send(ReportKind.SUPPLIER, code, f"report-{code}.html")


@blueprint.get("/batches/<uuid:batch_id>/report.html")
def of_batch(batch_id: UUID) -> Response:
    """Send the report of a batch."""
    with resources().Session.begin() as session:
        batch_of(session, batch_id)
    return _send(ReportKind.BATCH, str(batch_id), f"report-{batch_id}.html")


@blueprint.get("/waves/<uuid:plan_id>/report.html")
def of_plan(plan_id: UUID) -> Response:
    """Send the report of a wave plan."""
    with resources().Session.begin() as session:
        plan_of(session, plan_id)
    return _send(ReportKind.PLAN, str(plan_id), f"report-{plan_id}.html")


@blueprint.get("/waves/<uuid:plan_id>/<int:number>/report.html")
def of_wave(plan_id: UUID, number: int) -> Response:
    """Send the report of a wave."""
    with resources().Session.begin() as session:
        plan_of(session, plan_id)
    return _send(ReportKind.WAVE, str(plan_id), f"report-{plan_id}-{number}.html", wave=number)


def _send(kind: ReportKind, target: str, name: str, *, wave: int | None = None) -> Response:
    sessions = resources().Session
    with sessions.begin() as session:
        subject = find_subject(session, target, organisation_id=None, kind=kind, wave=wave)
    page = render_report(make_report(sessions, subject))
    # A file rather than a page, because it contains its stylesheet, which our pages may not.
    return Response(
        page, mimetype="text/html", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
