"""Attempts: the outcome of each request to create an account."""

from typing import Any

from flask import Response, jsonify

from migration_payloads.schemas.base import AnswerSchema
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.errors import error_body
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_path
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas import answers
from migration_service.schemas.paging import page_arguments
from migration_service.schemas.requests import ErrorBodySchema
from migration_service.services.reporting import attempts
from migration_service.services.reporting.attempts import AttemptReport
from migration_service.states import AttemptState, Outcome

_ATTEMPT_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_DETAIL = "Account would successfully import. Rolled back due to Dry Run."
_ERROR = {
    "detail": _DETAIL,
    "code": "dry_run_succeeded",
    "errors": [{"detail": _DETAIL, "code": "dry_run_succeeded", "attr": None}],
}


class AttemptAnswerSchema(AnswerSchema):
    """One attempt to create an account."""

    attempt_id = answers.UUID("The id of the attempt.", _ATTEMPT_ID)
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    external_account_number = answers.String("The account's number in the supplier's system.", "100000038")
    dry_run = answers.Boolean("Whether it is a dry run, which is rolled back even if it succeeds.", True)
    state = answers.String("Whether the attempt has ended.", "FINISHED", words=AttemptState)
    outcome = answers.String(
        "How it ended. WITHDRAWN: no worker started it in time. Null until it has ended.",
        "DRY_RUN_SUCCEEDED",
        allow_none=True,
        words=Outcome,
    )
    service_account_number = answers.String(
        "The number of the account. Null if the attempt did not create one.", "A-7KX2M9QD", allow_none=True
    )
    error = answers.Nested(
        ErrorBodySchema,
        "The error body that a request waiting for the attempt gets. Null if it has none.",
        _ERROR,
        allow_none=True,
    )
    created_at = answers.Moment("When it was accepted, in UTC.", "2026-03-01T10:15:00Z")
    finished_at = answers.Moment(
        "When it ended, in UTC. Null until then.", "2026-03-01T10:15:01Z", allow_none=True
    )


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
