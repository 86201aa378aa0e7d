"""Create an account (section 4.3)."""

from functools import partial
from typing import Any
from uuid import UUID

from flask import Response, g, jsonify, request, url_for

from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.blueprints.account_imports import blueprint
from migration_service.blueprints.description.examples import PROCESS
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import document_parameters, json_body
from migration_service.blueprints.requests.description_headers import PREFER, refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, idempotent, keyed_request
from migration_service.blueprints.requests.interface import caller
from migration_service.blueprints.requests.places import step_aside
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas import requests
from migration_service.services.imports.status import ReportedStatus
from migration_service.services.processing.dispatch import AttemptUndoneError, begin_attempt, wait_for_outcome
from migration_service.services.reporting.attempts import get_attempt

#: Seconds after which a client should ask for the outcome of an attempt.
_ASK_AGAIN = 2


def _replay(attempt_id: UUID) -> Any:
    """Answer a repeated request with the state of the attempt that the first request started."""
    with resources().Session.begin() as session:
        attempt = get_attempt(session, caller().organisation_id, str(attempt_id))
    if attempt.error:
        raise attempt.error
    if attempt.service_account_number:
        return jsonify({"service_account_number": attempt.service_account_number}), 201
    return _accepted(attempt.external_account_number, attempt_id), 202


@blueprint.post("/account-import-process/process/", endpoint="process_account")
@idempotent(replay_attempt=_replay)
@blueprint.response(201, requests.CreatedAccountSchema, example=None)
@blueprint.alt_response(
    202,
    schema=requests.AcceptedAccountSchema,
    description="Accepted, and still in progress.",
    headers=refer("Preference-Applied"),
)
@answers_errors(
    errors.ImportSupplierNotFoundInBodyError,
    errors.ImportSupplierPausedError,
    errors.ImportSupplierCompleteError,
    errors.AccountNotStagedError,
    errors.AccountAlreadyImportedError,
    errors.AccountMarkedToSkipError,
    errors.AccountImportInProgressError,
    errors.OperationsTeamNotFoundError,
    errors.AccountFailedValidationError,
    errors.AccountCreationFailedError,
    errors.AccountNotStorableError,
    errors.DryRunSucceededError,
    errors.ConcurrencyLimitReachedError,
    errors.NoWorkerAvailableError,
    *KEY_ERRORS,
    body=requests.AccountErrorBodySchema,
)
@json_body(requests.ProcessRequestSchema(), PROCESS)
@document_parameters(PREFER)
def process(body: dict[str, Any]) -> Any:
    """Create the account from its staged data

    A worker creates it while the request waits. With `Prefer: respond-async`, or if it takes too long, the
    status is 202 and the Location is the attempt, which reports the outcome. A dry run does everything and
    rolls it back. Its status is 400 even if it succeeds.
    """
    wait = "respond-async" not in request.headers.get("Prefer", "").lower()
    dispatch = resources().dispatch
    # From the arrival of the request, however often a server was lost meanwhile.
    until = g.began_at + dispatch.wait_seconds if wait else None
    begin = partial(begin_attempt, dispatch, caller(), body, keyed=keyed_request(), until=until)
    attempt_id = begin()
    if until is not None:
        step_aside()
        try:
            number = wait_for_outcome(dispatch, attempt_id, until)
        except AttemptUndoneError:
            attempt_id = begin()
            number = wait_for_outcome(dispatch, attempt_id, until)
        if number:
            created = encode_json({"service_account_number": number})
            return Response(created, 201, mimetype="application/json")
    accepted = _accepted(body["external_account_number"], attempt_id)
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
