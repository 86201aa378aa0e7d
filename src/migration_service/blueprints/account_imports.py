"""Validate, stage, create (sections 4.1 to 4.3)."""

from datetime import datetime
from typing import Any
from uuid import UUID

from flask import Response, jsonify, request, url_for
from flask_smorest import Blueprint

from migration_service.blueprints.description.examples import ACCOUNT, PROCESS, STAGED
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.auth import caller, require_token
from migration_service.blueprints.requests.body import (
    document_body,
    document_parameters,
    json_body,
    query_arguments,
    read_text,
)
from migration_service.blueprints.requests.description_headers import PREFER, refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, claim_id, idempotent
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.validation_report import answer_staged, answer_validated, reporting
from migration_service.db.base import new_id
from migration_service.db.statements import autocommit
from migration_service.errors import (
    AccountAlreadyImportedError,
    AccountCreationFailedError,
    AccountFailedValidationError,
    AccountImportInProgressError,
    AccountMarkedToSkipError,
    AccountNotStagedError,
    AccountNotStorableError,
    ConcurrencyLimitReachedError,
    DryRunSucceededError,
    ImportSupplierCompleteError,
    ImportSupplierNotFoundInBodyError,
    ImportSupplierPausedError,
    NewerVersionStagedError,
    NoWorkerAvailableError,
    OperationsTeamNotFoundError,
    ParseError,
    RequestFailedValidationError,
    StagedQuotaReachedError,
)
from migration_service.schemas.account import ACCOUNT_IMPORT, AccountImportSchema, LoadedAccount, read_account
from migration_service.schemas.requests import (
    AcceptedAccountSchema,
    AccountErrorBodySchema,
    CreatedAccountSchema,
    ProcessRequestSchema,
    StagedAccountSchema,
)
from migration_service.schemas.validation import (
    AccountReportErrorBodySchema,
    ReportArgumentsSchema,
    ReportErrorBodySchema,
    StageArgumentsSchema,
    StagingReportSchema,
    ValidationReportSchema,
)
from migration_service.services.imports import staging as imports
from migration_service.services.imports.newer_versions import note_invalid
from migration_service.services.imports.status import ReportedStatus
from migration_service.services.imports.validation import ValidatedAccount, validate_payload
from migration_service.services.processing.acceptance import ProcessOrder
from migration_service.services.processing.dispatch import process_account
from migration_service.services.reporting.attempts import get_attempt
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import Profile

blueprint = Blueprint(
    "account_imports",
    __name__,
    url_prefix="/v1/data-import",
    description="Validate, stage and create accounts.",
)
blueprint.before_request(require_token)

#: Seconds after which a client may ask for the outcome of an attempt.
_ASK_AGAIN = 2
_STAGED = {"anyOf": [StagedAccountSchema, StagingReportSchema]}


@blueprint.post("/validate-account/")
@document_body(blueprint, ACCOUNT_IMPORT, ACCOUNT)
@query_arguments(blueprint, ReportArgumentsSchema())
@blueprint.response(
    200,
    {"anyOf": [AccountImportSchema, ValidationReportSchema]},
    example=ACCOUNT,
    headers=refer("X-Warning-Count"),
)
@answers_errors(
    blueprint,
    AccountFailedValidationError,
    ImportSupplierNotFoundInBodyError,
    ParseError,
    body=ReportErrorBodySchema,
)
def validate_account(arguments: dict[str, Any]) -> Response:
    """Check an account payload without storing it

    Returns the data as it would be stored, or every error found, each with its path. With `report=full` it
    returns the data and all findings, warnings included.
    """
    loaded = read_account(read_text())
    profile = Profile(arguments["profile"]) if "profile" in arguments else None
    with reporting(arguments):
        _supplier, account = validate_payload(resources().reference, caller(), loaded, profile)
    return answer_validated(account, arguments)


@blueprint.post("/account-import-process/create-or-update/")
@document_body(blueprint, ACCOUNT_IMPORT, ACCOUNT)
@blueprint.response(201, _STAGED, example=STAGED | {"result": "STAGED"}, headers=refer("X-Warning-Count"))
@blueprint.alt_response(
    200,
    schema=_STAGED,
    example=STAGED | {"result": "REPLACED"},
    description="Staged before: updated.",
    headers=refer("X-Warning-Count"),
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
    NewerVersionStagedError,
    StagedQuotaReachedError,
    ParseError,
    body=AccountReportErrorBodySchema,
)
@query_arguments(blueprint, StageArgumentsSchema())
def stage_account(arguments: dict[str, Any]) -> Response:
    """Store an account payload, as often as needed until the account is created

    The payload is validated by the same rules as at the validate endpoint. The status is 201 for the first
    staging of an account, and 200 for every further one. The same payload again changes nothing; `result`
    says so. With `report=full` it responds as validate does. A payload with `extracted_at` does not replace
    one of a later extract.
    """
    loaded = read_account(read_text())
    with reporting(arguments):
        supplier, account = _validate_to_stage(loaded, arguments.get("extracted_at"))
        with autocommit(resources().Session) as statements:
            result = imports.stage_account(
                statements,
                supplier,
                account,
                resources().staged_quota,
                extracted_at=arguments.get("extracted_at"),
            )
    return answer_staged(account, arguments, result)


def _validate_to_stage(
    loaded: LoadedAccount, extracted_at: datetime | None
) -> tuple[KnownSupplier, ValidatedAccount]:
    try:
        return validate_payload(resources().reference, caller(), loaded)
    except AccountFailedValidationError as error:
        with autocommit(resources().Session) as statements:
            note_invalid(
                resources().reference, statements, caller(), loaded, error, extracted_at=extracted_at
            )
        raise


def _replay(attempt_id: UUID) -> Any:
    """Answer a repeated request with the state of the attempt that the first one began."""
    with resources().Session.begin() as session:
        attempt = get_attempt(session, caller().organisation_id, str(attempt_id))
    if attempt.error:
        raise attempt.error
    if attempt.service_account_number:
        return jsonify({"service_account_number": attempt.service_account_number}), 201
    return _accepted(attempt.external_account_number, attempt_id), 202


@blueprint.post("/account-import-process/process/", endpoint="process_account")
@idempotent(blueprint, replay_attempt=_replay)
@blueprint.response(201, CreatedAccountSchema)
@blueprint.alt_response(
    202,
    schema=AcceptedAccountSchema,
    description="Accepted, and still in progress.",
    headers=refer("Preference-Applied"),
)
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
    AccountNotStorableError,
    DryRunSucceededError,
    ParseError,
    ConcurrencyLimitReachedError,
    NoWorkerAvailableError,
    *KEY_ERRORS,
    body=AccountErrorBodySchema,
)
@json_body(blueprint, ProcessRequestSchema(), PROCESS)
@document_parameters(blueprint, PREFER)
def process(body: dict[str, Any]) -> Any:
    """Create the account from its staged data

    A worker creates it while the request waits. With `Prefer: respond-async`, or if it takes too long, the
    status is 202, and the Location is the attempt, which reports the outcome. A dry run does everything, and
    rolls it back. Its status is 400 even if it succeeds.
    """
    order = ProcessOrder(**body)
    wait = "respond-async" not in request.headers.get("Prefer", "").lower()
    attempt_id = claim_id() or new_id()
    number = process_account(resources().dispatch, caller(), order, attempt_id=attempt_id, wait=wait)
    if number is not None:
        return {"service_account_number": number}
    accepted = _accepted(order.external_account_number, attempt_id)
    if not wait:
        accepted.headers["Preference-Applied"] = "respond-async"
    return accepted, 202


def _accepted(external_account_number: str, attempt_id: UUID) -> Response:
    response = jsonify(
        status=ReportedStatus.IN_PROGRESS,
        external_account_number=external_account_number,
        attempt_id=attempt_id,
    )
    response.headers["Location"] = url_for("attempts.get_attempt", attempt_id=attempt_id)
    response.headers["Retry-After"] = str(_ASK_AGAIN)
    return response
