"""Attempts: the outcome of each request to create an account."""

from typing import Any

from flask import Response, jsonify

from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.errors import error_body
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_path
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas.attempts import AttemptAnswerSchema
from migration_service.schemas.paging import page_arguments
from migration_service.services.reporting import attempts
from migration_service.services.reporting.attempts import AttemptReport

_SCHEMA = AttemptAnswerSchema()

blueprint = make_blueprint(
    "attempts",
    "account-import-attempts",
    "The outcome of each attempt to create an account, dry runs included.",
)

_EXAMPLE = AttemptAnswerSchema.example(external_account_number="10000001", service_account_number=None)


@blueprint.get("/<attempt_id>/")
@blueprint.response(200, AttemptAnswerSchema, example=_EXAMPLE)
@answers_errors(errors.AttemptNotFoundError)
def get_attempt(attempt_id: str) -> Response:
    """Get an attempt to create an account

    `error` is the response body for a request that waits for the attempt. It is null while the attempt is in
    progress, and if the account was created.
    """
    with resources().Session.begin() as session:
        attempt = attempts.get_attempt(session, caller().organisation_id, attempt_id)
    return jsonify(_record(attempt))


@blueprint.get("/<import_supplier_code>/<number:external_account_number>/")
@query_arguments(page_arguments("attempts"))
@blueprint.response(200, AttemptAnswerSchema(many=True), example=[_EXAMPLE], headers=refer("Link"))
@answers_errors(errors.ImportSupplierNotFoundError, errors.AccountNotFoundError)
def list_attempts(
    arguments: dict[str, Any], import_supplier_code: str, external_account_number: str
) -> Response:
    """List the attempts to create an account, newest first

    Dry runs are included. The response is one page. A Link header (rel="next") leads to the next one.
    """
    listing = Listing.read(arguments)
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        found = attempts.list_attempts(
            session, supplier, external_account_number, before=listing.after, limit=listing.wanted
        )
    return listing.answer(found, "attempt_id", _record)


def _record(attempt: AttemptReport) -> dict[str, Any]:
    record: dict[str, Any] = _SCHEMA.dump(attempt)
    return record | {"error": error_body(attempt.error) if attempt.error else None}
