"""Attempts: the outcome of each request to create an account."""

from typing import Any

from flask import Response, jsonify, url_for
from flask_smorest import Blueprint

from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.auth import caller, require_token
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.error_bodies import error_body
from migration_service.blueprints.requests.names import check_names
from migration_service.blueprints.requests.paging import read_page
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import (
    AccountNotFoundError,
    AttemptNotFoundError,
    ImportSupplierNotFoundError,
    RequestFailedValidationError,
)
from migration_service.schemas.attempts import AttemptAnswerSchema, AttemptListArgumentsSchema
from migration_service.services.reporting import attempts
from migration_service.services.reporting.attempts import AttemptReport
from migration_service.services.setup.suppliers import get_import_supplier

_SCHEMA = AttemptAnswerSchema()

blueprint = Blueprint(
    "attempts",
    __name__,
    url_prefix="/v1/data-import/account-import-attempts",
    description="The outcome of each attempt to create an account, dry runs included.",
)
blueprint.before_request(require_token)
blueprint.before_request(check_names)

_EXAMPLE: dict[str, Any] = {
    "attempt_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
    "import_supplier": SUPPLIER,
    "external_account_number": "10000001",
    "dry_run": True,
    "state": "FINISHED",
    "outcome": "DRY_RUN_SUCCEEDED",
    "service_account_number": None,
    "error": {
        "detail": "Account would successfully import. Rolled back due to Dry Run.",
        "code": "dry_run_succeeded",
        "errors": [
            {
                "detail": "Account would successfully import. Rolled back due to Dry Run.",
                "code": "dry_run_succeeded",
                "attr": None,
            }
        ],
    },
    "created_at": "2026-03-01T10:15:00Z",
    "finished_at": "2026-03-01T10:15:01Z",
}


@blueprint.get("/<attempt_id>/")
@blueprint.response(200, AttemptAnswerSchema, example=_EXAMPLE)
@answers_errors(blueprint, AttemptNotFoundError)
def get_attempt(attempt_id: str) -> Response:
    """Get an attempt to create an account

    `error` is the response body for a request that waits for the attempt. It is null while the attempt is in
    progress, and if the account was created.
    """
    with resources().Session.begin() as session:
        attempt = attempts.get_attempt(session, caller().organisation_id, attempt_id)
    return jsonify(_record(attempt))


@blueprint.get("/<import_supplier_code>/<number:external_account_number>/")
@query_arguments(blueprint, AttemptListArgumentsSchema())
@blueprint.response(200, AttemptAnswerSchema(many=True), example=[_EXAMPLE], headers=refer("Link"))
@answers_errors(blueprint, RequestFailedValidationError, ImportSupplierNotFoundError, AccountNotFoundError)
def list_attempts(
    arguments: dict[str, Any], import_supplier_code: str, external_account_number: str
) -> Response:
    """List the attempts to create an account, newest first

    Dry runs are included. The response is one page. A Link header (rel="next") leads to the next one.
    """
    limit, before = read_page(arguments)
    with resources().Session.begin() as session:
        supplier = get_import_supplier(
            session, import_supplier_code, organisation_id=caller().organisation_id
        )
        found = attempts.list_attempts(
            session, supplier, external_account_number, before=before, limit=limit + 1
        )
    response = jsonify([_record(attempt) for attempt in found[:limit]])
    if len(found) > limit:
        url = url_for(
            "attempts.list_attempts",
            import_supplier_code=import_supplier_code,
            external_account_number=external_account_number,
            limit=limit,
            cursor=found[limit - 1].attempt_id,
        )
        response.headers["Link"] = f'<{url}>; rel="next"'
    return response


def _record(attempt: AttemptReport) -> dict[str, Any]:
    record: dict[str, Any] = _SCHEMA.dump(attempt)
    return record | {"error": error_body(attempt.error) if attempt.error else None}
