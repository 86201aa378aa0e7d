"""The figures of the old system, compared with the created accounts."""

from typing import Any

from flask import Response, jsonify

from migration_service import errors
from migration_service.blueprints import batch_upload
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_path
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.places import while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas import old_figures as schemas
from migration_service.services.access.api_keys import get_api_key_name
from migration_service.services.reconciliation import comparisons, old_figures
from migration_service.tasks import jobs

blueprint = make_blueprint(
    "old_figures", "reconciliation/<import_supplier_code>/old-figures", "The figures of the old system."
)

_ANSWER, _DIFFERENCE = schemas.OldFiguresAnswerSchema(), schemas.FigureDifferenceAnswerSchema()
_JUST_SENT = {"comparison_id": None, "compared_at": None, "compared": 0, "not_created": 0, "differing": 0}
_BODY = {
    "description": "NDJSON, an account on each line, or CSV with a header: `external_account_number`, the "
    "other members, and a column `ledger_balances.CODE` for each ledger. Plain or gzip.",
    "content": {
        kind: {"schema": {"type": "string", "format": "binary"}, "example": schemas.EXAMPLE}
        for kind in ("application/octet-stream", "application/x-ndjson", "application/gzip", "text/csv")
    },
}


@blueprint.put("/", endpoint="set_old_figures")
@blueprint.doc(requestBody=_BODY)
@query_arguments(schemas.OldFiguresArgumentsSchema())
@blueprint.response(
    200,
    schemas.OldFiguresAnswerSchema,
    example=schemas.OldFiguresAnswerSchema.example(figures=[], **_JUST_SENT),
)
@answers_errors(
    errors.ImportSupplierNotFoundError,
    errors.BatchFileError,
    errors.BatchFileTooLargeError,
    errors.BatchTooManyLinesError,
    errors.BatchCompressionError,
    errors.TooManyUploadsError,
)
@while_client_waits
def put_figures(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """Send the old system's figures of each account

    The file replaces the one before. If any line has an error, the answer lists the errors, each with its
    line and path, and nothing is stored. The supplier's accounts are then compared, in turn with all other
    work: `comparison_id` is null until that comparison has ended. Every reconciliation compares the figures,
    with what the accounts are at that moment, including data that was added later. Accounts that differ by
    more than the tolerance are the problem OLD_FIGURES.
    """
    shared = resources()
    with shared.Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        name = get_api_key_name(session, caller().api_key_id)
    limits = batch_upload.intake_limits(shared.settings)
    old_figures.take_in_figures(
        shared.Session,
        supplier,
        batch_upload.read_file(limits),
        old_figures.Tolerance(arguments["tolerance"], arguments["tolerance_days"]),
        file_name=arguments.get("file_name"),
        by=name,
        redis=shared.redis,
        limits=limits,
    )
    with shared.Session.begin() as session:
        comparisons.start_comparison(session, supplier)
        answer = _ANSWER.dump(old_figures.describe_figures(old_figures.get_figures(session, supplier), None))
    jobs.dispatch(shared.celery, shared.Session, jobs.COMPARISONS)
    return jsonify(answer)


@blueprint.get("/", endpoint="get_old_figures")
@query_arguments(schemas.OldFiguresScopeSchema())
@blueprint.response(200, schemas.OldFiguresAnswerSchema)
@answers_errors(
    errors.ImportSupplierNotFoundError,
    errors.OldFiguresNotFoundError,
    errors.BatchNotFoundError,
    errors.BatchStateError,
)
def get_one(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """Get how the old system's figures compare with the created accounts

    The numbers are those of the kept comparison of the supplier, or of one batch. Reconcile to compare again.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        batch_id = comparisons.get_batch_to_reconcile(session, arguments.get("batch"), supplier)
        kept = comparisons.find_kept(session, supplier.id, batch_id)
        return jsonify(
            _ANSWER.dump(old_figures.describe_figures(old_figures.get_figures(session, supplier), kept))
        )


@blueprint.get("/differences/", endpoint="list_old_figure_differences")
@query_arguments(schemas.difference_arguments())
@blueprint.response(200, schemas.FigureDifferenceAnswerSchema(many=True), headers=refer("Link"))
@answers_errors(
    errors.ImportSupplierNotFoundError,
    errors.OldFiguresNotFoundError,
    errors.BatchNotFoundError,
    errors.BatchStateError,
)
def list_differences(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """List the figures that differ, account by account

    They are those of the kept comparison. The response is one page. A Link header (rel="next") leads to the
    next one.
    """
    listing = Listing.read(arguments)
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        old_figures.get_figures(session, supplier)
        batch_id = comparisons.get_batch_to_reconcile(session, arguments.get("batch"), supplier)
        found = old_figures.list_figure_differences(
            session,
            comparisons.find_kept(session, supplier.id, batch_id),
            bucket=arguments.get("bucket"),
            figure=arguments.get("figure"),
            after=listing.after,
            limit=listing.wanted,
        )
        return listing.answer(found, "number", _DIFFERENCE.dump)
