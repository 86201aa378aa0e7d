"""Validate and stage an account (sections 4.1 and 4.2)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from flask import Response

from migration_payloads.profile import Profile
from migration_payloads.schemas.account import (
    ACCOUNT_IMPORT,
    AccountImportSchema,
    LoadedAccount,
    read_account,
)
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
from migration_service.schemas import validation
from migration_service.schemas.requests import StagedAccountSchema
from migration_service.services.imports import staging
from migration_service.services.imports.newer_versions import note_invalid
from migration_service.services.setup.suppliers import KnownSupplier

blueprint = make_blueprint("account_imports", "", "Validate, stage and create accounts.")

_STAGED = {"anyOf": [StagedAccountSchema, validation.StagingReportSchema]}


def _find_errors() -> Sequence[errors.ErrorItem]:
    """Return the errors of the payload, for a request whose parameters are wrong."""
    try:
        staging.validate_payload(resources().reference, caller(), read_account(body.read_text()))
    except errors.InvalidError as error:
        return error.errors
    return ()


@blueprint.post("/validate-account/")
@body.query_arguments(blueprint, validation.ReportArgumentsSchema(), find_errors=_find_errors)
@blueprint.response(
    200,
    {"anyOf": [AccountImportSchema, validation.ValidationReportSchema]},
    example=ACCOUNT,
    headers=refer("X-Warning-Count"),
)
@answers_errors(
    blueprint,
    errors.AccountFailedValidationError,
    errors.ImportSupplierNotFoundInBodyError,
    body=validation.ReportErrorBodySchema,
)
@body.document_body(blueprint, ACCOUNT_IMPORT, ACCOUNT)
def validate_account(arguments: dict[str, Any]) -> Response:
    """Check an account payload without storing it

    Returns the data as it would be stored, or every error with its path. With `report=full` it returns the
    data and all findings, including warnings.
    """
    text = body.read_text()
    loaded = read_account(text)
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
    blueprint,
    errors.AccountFailedValidationError,
    errors.ImportSupplierNotFoundInBodyError,
    errors.ImportSupplierPausedError,
    errors.ImportSupplierCompleteError,
    errors.AccountAlreadyImportedError,
    errors.AccountMarkedToSkipError,
    errors.AccountImportInProgressError,
    errors.NewerVersionStagedError,
    errors.StagedQuotaReachedError,
    body=validation.AccountReportErrorBodySchema,
)
@body.query_arguments(blueprint, validation.StageArgumentsSchema(), find_errors=_find_errors)
@body.document_body(blueprint, ACCOUNT_IMPORT, ACCOUNT)
def stage_account(arguments: dict[str, Any]) -> Response:
    """Store an account payload, as often as needed until the account is created

    The rules are those of the validate endpoint. The status is 201 when an account is staged for the first
    time, and 200 after that. Sending the same payload again changes nothing, and `result` says so. With
    `report=full` it responds as validate does. A payload with `extracted_at` does not replace one with a
    later `extracted_at`.
    """
    text = body.read_text()
    loaded = read_account(text)
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
    loaded: LoadedAccount, extracted_at: datetime | None
) -> tuple[KnownSupplier, ValidatedAccount]:
    try:
        return staging.validate_payload(resources().reference, caller(), loaded)
    except errors.AccountFailedValidationError as error:
        with autocommit(resources().Session) as connection:
            note_invalid(
                resources().reference, connection, caller(), loaded, error, extracted_at=extracted_at
            )
        raise
