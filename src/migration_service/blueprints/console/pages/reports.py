"""The report of a supplier, a batch, a wave plan or a wave, as one file that can be shared or printed."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from flask import Blueprint, Response
from sqlalchemy.orm import Session

from migration_service.blueprints.console.access import batch_of, plan_of, supplier_of
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.requests.resources import resources
from migration_service.services.reporting.report import make_report
from migration_service.services.reporting.report_page import render_report
from migration_service.services.reporting.report_subject import ReportKind, find_subject

blueprint = Blueprint("reports", __name__)

#: Seconds for which a page waits for the comparison.
_SECONDS = 10.0


@blueprint.get("/suppliers/<code>/report.html")
def of_supplier(code: str) -> Response:
    """Send the report of a supplier."""
    return _send(supplier_of, code, ReportKind.SUPPLIER, f"report-{code}.html")


@blueprint.get("/batches/<uuid:batch_id>/report.html")
def of_batch(batch_id: UUID) -> Response:
    """Send the report of a batch."""
    return _send(batch_of, batch_id, ReportKind.BATCH, f"report-{batch_id}.html")


@blueprint.get("/waves/<uuid:plan_id>/report.html")
def of_plan(plan_id: UUID) -> Response:
    """Send the report of a wave plan."""
    return _send(plan_of, plan_id, ReportKind.PLAN, f"report-{plan_id}.html")


@blueprint.get("/waves/<uuid:plan_id>/<int:number>/report.html")
def of_wave(plan_id: UUID, number: int) -> Response:
    """Send the report of a wave."""
    return _send(plan_of, plan_id, ReportKind.WAVE, f"report-{plan_id}-{number}.html", wave=number)


def _send(
    check: Callable[[Session, Any], object],
    target: object,
    kind: ReportKind,
    name: str,
    wave: int | None = None,
) -> Response:
    sessions = resources().Session
    with sessions.begin() as session:
        check(session, target)
        subject = find_subject(session, str(target), organisation_id=None, kind=kind, wave=wave)
    made = (render_report(make_report(sessions, it, seconds=_SECONDS)).encode() for it in (subject,))
    # A file rather than a page, because it contains its stylesheet, which our pages may not.
    return send_file(made, name, "text/html")
