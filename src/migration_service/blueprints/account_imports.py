"""Validate and stage an account (sections 4.1 and 4.2)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from flask import Response, request

from migration_payloads.profile import Profile
from migration_payloads.schemas import account as schemas
from migration_payloads.schemas.base import AnswerSchema, Fields
from migration_payloads.schemas.fields import Choice
from migration_payloads.validation import ValidatedAccount
from migration_service import errors
from migration_service.blueprints.description.examples import ACCOUNT, STAGED
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests import body
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.validation_report import answer_staged, answer_validated, reporting
from migration_service.db.sql import autocommit
from migration_service.schemas import answers, requests
from migration_service.schemas.extracts import extract_moment
from migration_service.schemas.requests import StagedAccountSchema
from migration_service.services.imports import staging
from migration_service.services.imports.newer_versions import note_invalid
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import Report

_REPORT = Choice(Report, "`full`: respond with all findings, including warnings.", "full")


class StageArgumentsSchema(Fields):
    """The query string of the stage endpoint."""

    report = _REPORT
    extracted_at = extract_moment()


class ReportArgumentsSchema(Fields):
    """The query string of the validate endpoint."""

    profile = Choice(Profile, "The profile to validate under, instead of the supplier's.", "strict")
    report = _REPORT


_VALID = "Whether the payload may be staged."
_ERROR = {"detail": "This field is required.", "code": "required", "attr": "ledgers.0.ledger_code"}
_WARNING = {"detail": "This is not a field here.", "code": "unknown_field", "attr": "customers.0.phone"}


class ValidationReportSchema(AnswerSchema):
    """Everything that the validation of a payload without errors found."""

    valid = answers.Boolean(_VALID, True)
    errors = answers.List(requests.FindingSchema, "Empty: the payload has no errors.", [])
    warnings = answers.List(
        requests.FindingSchema, "The warnings, which do not prevent staging, each with its path.", [_WARNING]
    )
    account = answers.Nested(schemas.AccountImportSchema, "The data as it is stored.", ACCOUNT)


class StagingReportSchema(ValidationReportSchema):
    """Everything that the validation of a staged payload found."""

    result = requests.StagedAccountSchema().fields["result"]


class _ReportedFaults(AnswerSchema):
    """The members that the full report of a faulty payload has in addition to the body of an error."""

    optional = frozenset({"valid", "warnings", "account"})

    errors = answers.List(requests.FindingSchema, "Every error, each with its path.", [_ERROR])
    valid = answers.Boolean(f"{_VALID} Only in a full report.", False)
    warnings = answers.List(
        requests.FindingSchema, "The warnings, each with its path. Only in a full report.", [_WARNING]
    )
    account = answers.Raw(
        "Null, because nothing is stored. Only in a full report.",
        None,
        allow_none=True,
        openapi={"enum": [None]},
    )


class ReportErrorBodySchema(_ReportedFaults, requests.ErrorBodySchema):
    """The body of a 400 of validate, with or without the full report."""


class AccountReportErrorBodySchema(_ReportedFaults, requests.AccountErrorBodySchema):
    """The body of a 400 of stage, with or without the full report."""

    optional = requests.AccountErrorBodySchema.optional | _ReportedFaults.optional


blueprint = make_blueprint("account_imports", "", "Validate, stage and create accounts.")

_STAGED = {"anyOf": [StagedAccountSchema, StagingReportSchema]}


#: The key in a request's environment of what was loaded from its body before it came to Flask.
LOADED = "migration_service.loaded"


def _load(text: bytes) -> schemas.LoadedAccount:
    # Only once: the findings of the rules are added to it.
    loaded: schemas.LoadedAccount | None = request.environ.pop(LOADED, None)
    return loaded or schemas.read_account(text)


def _find_errors() -> Sequence[errors.ErrorItem]:
    """Return the errors of the payload, for a request whose parameters are wrong."""
    try:
        staging.validate_payload(resources().reference, caller(), schemas.read_account(body.read_text()))
    except errors.InvalidError as error:
        return error.errors
    return ()


@blueprint.post("/validate-account/")
@body.query_arguments(ReportArgumentsSchema(), find_errors=_find_errors)
@blueprint.response(
    200,
    {"anyOf": [schemas.AccountImportSchema, ValidationReportSchema]},
    example=ACCOUNT,
    headers=refer("X-Warning-Count"),
)
@answers_errors(
    errors.AccountFailedValidationError, errors.ImportSupplierNotFoundInBodyError, body=ReportErrorBodySchema
)
@body.document_body(schemas.ACCOUNT_IMPORT, ACCOUNT)
def validate_account(arguments: dict[str, Any]) -> Response:
    """Check an account payload without storing it

    Returns the data as it would be stored, or every error with its path. With `report=full` it returns the
    data and all findings, including warnings.
    """
    text = body.read_text()
    loaded = _load(text)
    profile = Profile(arguments["profile"]) if "profile" in arguments else None
    with reporting(arguments, text):
        _supplier, account = staging.validate_payload(resources().reference, caller(), loaded, profile)
    return answer_validated(account, arguments, text)


@blueprint.post("/account-import-process/create-or-update/")
@blueprint.response(201, _STAGED, example=STAGED | {"result": "STAGED"}, headers=refer("X-Warning-Count"))
@blueprint.alt_response(
    200,
    schema=_STAGED,
    example=STAGED | {"result": "REPLACED"},
    description="Staged before: updated.",
    headers=refer("X-Warning-Count"),
)
@answers_errors(
    errors.AccountFailedValidationError,
    errors.ImportSupplierNotFoundInBodyError,
    errors.ImportSupplierPausedError,
    errors.ImportSupplierCompleteError,
    errors.AccountAlreadyImportedError,
    errors.AccountMarkedToSkipError,
    errors.AccountImportInProgressError,
    errors.NewerVersionStagedError,
    errors.StagedQuotaReachedError,
    body=AccountReportErrorBodySchema,
)
@body.query_arguments(StageArgumentsSchema(), find_errors=_find_errors)
@body.document_body(schemas.ACCOUNT_IMPORT, ACCOUNT)
def stage_account(arguments: dict[str, Any]) -> Response:
    """Store an account payload, as often as needed until the account is created

    The rules are those of the validate endpoint. The status is 201 when an account is staged for the first
    time, and 200 after that. Sending the same payload again changes nothing, and `result` says so. With
    `report=full` it responds as validate does. A payload with `extracted_at` does not replace one with a
    later `extracted_at`.
    """
    text = body.read_text()
    loaded = _load(text)
    with reporting(arguments, text):
        supplier, account = _validate_to_stage(loaded, arguments.get("extracted_at"))
        with autocommit(resources().Session) as connection:
            result = staging.stage_account(
                connection,
                supplier,
                account,
                resources().staged_quota,
                extracted_at=arguments.get("extracted_at"),
            )
    return answer_staged(account, arguments, text, result)


def _validate_to_stage(
    loaded: schemas.LoadedAccount, extracted_at: datetime | None
) -> tuple[KnownSupplier, ValidatedAccount]:
    try:
        return staging.validate_payload(resources().reference, caller(), loaded)
    except errors.AccountFailedValidationError as error:
        with autocommit(resources().Session) as connection:
            note_invalid(
                resources().reference, connection, caller(), loaded, error, extracted_at=extracted_at
            )
        raise
