"""Reports as one page of HTML that can be shared or printed."""

from typing import Any

from flask import Response

from migration_payloads.schemas.base import Fields
from migration_payloads.schemas.fields import WholeNumber
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.places import database_searches
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream
from migration_service.services.reporting.report import make_report
from migration_service.services.reporting.report_page import render_report
from migration_service.services.reporting.report_subject import find_subject


class ReportArgumentsSchema(Fields):
    """The query string of a report."""

    wave = WholeNumber(
        "With the id of a plan: only its wave with this number.",
        1,
        parameter={"type": "integer", "minimum": 1},
    )


blueprint = make_blueprint("reports", "reports", "Reports that can be shared or printed.")

#: Seconds for which a request compares.
_SECONDS = 10.0


@blueprint.get("/<subject>/", endpoint="get_report")
@query_arguments(ReportArgumentsSchema())
@blueprint.response(
    200,
    {"type": "string", "description": "A page of HTML without scripts, which loads nothing."},
    content_type="text/html",
    example="<!doctype html><title>Report of DEMO_SUPPLIER</title>",
)
@answers_errors(errors.ImportSupplierNotFoundError, errors.WavePlanNotFoundError, errors.WaveNotFoundError)
@database_searches()
def get_report(arguments: dict[str, Any], subject: str) -> Response:
    """Get a report as one page that can be shared or printed

    The subject is the code of a supplier, or the id of a batch or of a wave plan. The report shows what was
    planned, done and failed, times and rates, the reconciliation with every kind of difference, what was
    undone, who decided what, and the versions. For waves it adds their windows, how their accounts were
    chosen, and the decision on each. The page has no personal data. If comparing takes longer than ten
    seconds, the report has the comparison before: reconcile first.
    """
    sessions = resources().Session
    with sessions.begin() as session:
        found = find_subject(
            session, subject, organisation_id=caller().organisation_id, wave=arguments.get("wave")
        )
    made = (render_report(make_report(sessions, it, seconds=_SECONDS)).encode() for it in (found,))
    return stream(made, "text/html; charset=utf-8")
