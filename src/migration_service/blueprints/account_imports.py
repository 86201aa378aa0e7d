"""Validate, stage, create (sections 4.1 to 4.3)."""

from typing import Any

from flask import Response, jsonify, request, url_for
from flask_smorest import Blueprint

from migration_service.blueprints.auth import caller, require_token
from migration_service.blueprints.body import document_body, json_body, query_arguments, read_json
from migration_service.blueprints.examples import ACCOUNT, PROCESS, STAGED
from migration_service.blueprints.openapi import answers_errors
from migration_service.blueprints.resources import resources
from migration_service.db.statements import autocommit
from migration_service.errors import (
    AccountAlreadyImportedError,
    AccountCreationFailedError,
    AccountFailedValidationError,
    AccountImportInProgressError,
    AccountMarkedToSkipError,
    AccountNotStagedError,
    ConcurrencyLimitReachedError,
    DryRunSucceededError,
    ImportSupplierCompleteError,
    ImportSupplierNotFoundInBodyError,
    ImportSupplierPausedError,
    OperationsTeamNotFoundError,
    ParseError,
    RequestFailedValidationError,
)
from migration_service.schemas.account import ACCOUNT_IMPORT
from migration_service.schemas.requests import (
    AcceptedAccountSchema,
    CreatedAccountSchema,
    ProcessRequestSchema,
    StagedAccountSchema,
    ValidateArgumentsSchema,
)
from migration_service.services.imports import staging as imports
from migration_service.services.imports.validation import validate_payload
from migration_service.services.processing.acceptance import ProcessOrder
from migration_service.services.processing.dispatch import process_account
from migration_service.states import Profile

blueprint = Blueprint(
    "account_imports",
    __name__,
    url_prefix="/v1/data-import",
    description="Validate, stage and create accounts.",
)
blueprint.before_request(require_token)


@blueprint.post("/validate-account/")
@document_body(blueprint, ACCOUNT_IMPORT, ACCOUNT)
@query_arguments(blueprint, ValidateArgumentsSchema())
@blueprint.response(200, ACCOUNT_IMPORT, example=ACCOUNT)
@answers_errors(blueprint, AccountFailedValidationError, ImportSupplierNotFoundInBodyError, ParseError)
def validate_account(arguments: dict[str, Any]) -> Response:
    """Check an account payload without storing it

    Answers with the data as it would be stored, or with every error found, each with its path.
    """
    payload = read_json()
    profile = Profile(arguments["profile"]) if "profile" in arguments else None
    with autocommit(resources().Session) as statements:
        _supplier, account = validate_payload(statements, caller(), payload, profile)
    return Response(account.json, mimetype="application/json")


@blueprint.post("/account-import-process/create-or-update/")
@document_body(blueprint, ACCOUNT_IMPORT, ACCOUNT)
@blueprint.response(201, StagedAccountSchema, example=STAGED)
@blueprint.alt_response(
    200, schema=StagedAccountSchema, example=STAGED, description="Staged before: updated."
)
@answers_errors(
    blueprint,
    AccountFailedValidationError,
    ImportSupplierNotFoundInBodyError,
    ImportSupplierPausedError,
    ImportSupplierCompleteError,
    AccountAlreadyImportedError,
    AccountMarkedToSkipError,
    AccountImportInProgressError,
    ParseError,
)
def stage_account() -> tuple[dict[str, str], int]:
    """Store an account payload, as often as needed until the account is created

    Validated by the same rules as the validate endpoint. 201 for the first staging of an account, 200
    for every further one. The same payload again changes nothing.
    """
    payload = read_json()
    with autocommit(resources().Session) as statements:
        supplier, account = validate_payload(statements, caller(), payload)
        first = imports.stage_account(statements, supplier, account)
    staged = {name: account.data[name] for name in ("import_supplier", "external_account_number")}
    return staged, 201 if first else 200


@blueprint.post("/account-import-process/process/")
@blueprint.response(201, CreatedAccountSchema)
@blueprint.alt_response(202, schema=AcceptedAccountSchema, description="Accepted, and still under way.")
@answers_errors(
    blueprint,
    RequestFailedValidationError,
    ImportSupplierNotFoundInBodyError,
    ImportSupplierPausedError,
    ImportSupplierCompleteError,
    AccountNotStagedError,
    AccountAlreadyImportedError,
    AccountMarkedToSkipError,
    AccountImportInProgressError,
    OperationsTeamNotFoundError,
    AccountFailedValidationError,
    AccountCreationFailedError,
    DryRunSucceededError,
    ParseError,
    ConcurrencyLimitReachedError,
)
@json_body(blueprint, ProcessRequestSchema(), PROCESS)
def process(body: dict[str, Any]) -> Any:
    """Create the account from its staged data

    A worker creates it while the request waits. With `Prefer: respond-async`, and where it takes too
    long, the answer is 202, and its Location the status to ask for. A dry run does everything, is rolled
    back, and answers 400 whatever comes of it.
    """
    order = ProcessOrder(**body)
    wait = "respond-async" not in request.headers.get("Prefer", "").lower()
    number = process_account(resources().dispatch, caller(), order, wait=wait)
    if number is not None:
        return {"service_account_number": number}
    status_url = url_for(
        "status.get_account_status",
        import_supplier_code=order.import_supplier_code,
        external_account_number=order.external_account_number,
    )
    accepted = {"status": "IN_PROGRESS", "external_account_number": order.external_account_number}
    headers = {"Location": status_url} | ({} if wait else {"Preference-Applied": "respond-async"})
    return jsonify(accepted), 202, headers
