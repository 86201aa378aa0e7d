"""Undo: removal of created accounts, until their supplier goes live."""

from typing import Any
from uuid import UUID

from flask import Response, jsonify, url_for
from sqlalchemy.orm import Session

from migration_payloads.schemas.coded import example_of
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.description_headers import CSV, refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, answer_with_effect, idempotent
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_body
from migration_service.blueprints.requests.paging import answer_list
from migration_service.blueprints.requests.places import begin_answer, database_searches, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream_lines
from migration_service.schemas import undo as schemas
from migration_service.schemas.paging import list_arguments
from migration_service.services.access.operators import OperatorRole
from migration_service.services.access.scopes import Scope
from migration_service.services.undo.orders import UndoOrder, batch_in_body, get_batch_to_undo
from migration_service.services.undo.preview import preview_undo
from migration_service.services.undo.reading import get_undo, list_undos, report_undo, stream_outcomes
from migration_service.services.undo.starting import cancel_undo, start_undo
from migration_service.states import UndoBlocker, UndoOutcome
from migration_service.tasks import jobs

blueprint = make_blueprint("undo", "undos", "Remove created accounts, until their supplier goes live.")

_NO_WAVE = {"plan_id": None, "wave_number": None}
_PROGRESS = schemas.UndoProgressAnswerSchema.example(**_NO_WAVE, finished_at=None)
_UNDO = {name: _PROGRESS[name] for name in schemas.UndoAnswerSchema().fields}
_OUTCOME_CSV = (
    "external_account_number,service_account_number,outcome,reasons\r\n"
    "10000001,A-7KX2M9QD,KEPT,email_sent\r\n"
)
_BODY = {
    name: it
    for name, it in example_of(schemas.UndoBodySchema).items()
    if name not in ("batch", "wave", "by", "overrides")
}
TARGET_ERRORS = (
    errors.ImportSupplierNotFoundInBodyError,
    errors.AccountInUndoError,
    errors.BatchNotFoundError,
    errors.BatchStateError,
    errors.WavePlanNotFoundError,
    errors.WaveNotFoundError,
    errors.WaveStateError,
)


@blueprint.post("/preview/", endpoint="preview_undo")
@blueprint.response(
    200, schemas.UndoPreviewAnswerSchema, example=schemas.UndoPreviewAnswerSchema.example(**_NO_WAVE)
)
@answers_errors(*TARGET_ERRORS)
@json_body(schemas.UndoTargetSchema(), {name: it for name, it in _BODY.items() if name != "reason"})
@while_client_waits
@database_searches()
def preview(body: dict[str, Any]) -> Response:
    """Preview an undo

    Shows how many accounts would be undone, and what blocks the others. Nothing is changed.
    """
    with resources().Session.begin() as session:
        order = read_order(session, body)
        begin_answer()
        found = preview_undo(session, order)
    return jsonify(schemas.UndoPreviewAnswerSchema().dump(found))


@blueprint.post("/", endpoint="start_undo")
@idempotent()
@blueprint.response(202, schemas.UndoProgressAnswerSchema, example=_PROGRESS)
@answers_errors(*TARGET_ERRORS, errors.ImportSupplierLiveError, errors.NothingToUndoError, *KEY_ERRORS)
@json_body(schemas.UndoBodySchema(), _BODY)
@while_client_waits
def start(body: dict[str, Any]) -> Response:
    """Start an undo

    Workers remove the accounts with all their data. Each import is pending again, with the payload that was
    staged. If it is processed again, the account gets a new number. Unsent customer e-mails are withdrawn. A
    blocked account is kept, and its outcome says why. Of a batch of added data only what it has added is
    removed, and the balances are as before. If a wave is undone, its plan waits until the undo has
    ended. Then the wave is reconciled again.
    """
    with resources().Session.begin() as session:
        may_override = Scope.OVERRIDE in (caller().scopes or ())  # a key without limits may not
        role = OperatorRole.ADMINISTER if may_override else None
        order = read_order(session, body)
        undo_id = start_undo(
            session, order, role=role, on_accepted=lambda undo_id: begin_answer(202, _location(undo_id))
        )
        answer = answer_with_effect(session, _report(session, str(undo_id)), 202, _location(undo_id))
    jobs.dispatch(resources().celery, resources().Session, jobs.UNDOS)
    return answer


@blueprint.get("/", endpoint="list_undos")
@query_arguments(list_arguments("undos"))
@blueprint.response(200, schemas.UndoAnswerSchema(many=True), example=[_UNDO], headers=refer("Link"))
@answers_errors()
def list_all(arguments: dict[str, Any]) -> Response:
    """List the organisation's undos, newest first

    The response is one page. A Link header (rel="next") leads to the next one.
    """
    return answer_list(arguments, list_undos, "undo_id", schemas.UndoAnswerSchema())


@blueprint.get("/<undo_id>/", endpoint="get_undo")
@blueprint.response(200, schemas.UndoProgressAnswerSchema, example=_PROGRESS)
@answers_errors(errors.UndoNotFoundError)
def get_one(undo_id: str) -> Response:
    """Get the progress of an undo

    Includes counts of its accounts by outcome, and of kept accounts by reason.
    """
    with resources().Session.begin() as session:
        return jsonify(_report(session, undo_id))


@blueprint.get("/<undo_id>/results/", endpoint="get_undo_results")
@query_arguments(schemas.UndoResultArgumentsSchema())
@blueprint.response(200, schemas.UndoOutcomeAnswerSchema, content_type="application/x-ndjson")
@blueprint.alt_response(200, schema=CSV, content_type="text/csv", example=_OUTCOME_CSV)
@answers_errors(errors.UndoNotFoundError)
def get_results(arguments: dict[str, Any], undo_id: str) -> Response:
    """Get the outcome of each account, streamed

    NDJSON, or CSV with `Accept: text/csv`.
    """
    outcome = UndoOutcome(arguments["outcome"]) if "outcome" in arguments else None
    with resources().Session.begin() as session:
        undo = get_undo(session, undo_id, organisation_id=caller().organisation_id)
    return stream_lines(lambda kind: stream_outcomes(resources().Session, undo.id, kind, outcome))


@blueprint.post("/<undo_id>/cancel/", endpoint="cancel_undo")
@blueprint.response(200, schemas.UndoProgressAnswerSchema, example=_PROGRESS | {"state": "CANCELLED"})
@answers_errors(errors.UndoNotFoundError, errors.UndoStateError)
def cancel(undo_id: str) -> Response:
    """Cancel an undo

    This is permanent: no more accounts are undone. Accounts that were already undone are not restored.
    """
    with resources().Session.begin() as session:
        undo = get_undo(session, undo_id, organisation_id=caller().organisation_id)
        cancel_undo(session, undo)
        return jsonify(_report(session, undo_id))


def read_order(session: Session, body: dict[str, Any]) -> UndoOrder:
    """Return the order in a body that names accounts, a batch or a wave."""
    supplier = supplier_in_body(session, body)
    batch_id = batch_in_body(session, body, supplier)
    return UndoOrder(
        supplier=supplier,
        batch=get_batch_to_undo(session, batch_id, supplier) if batch_id else None,
        external_account_numbers=body.get("external_account_numbers", ()),
        reason=body.get("reason", ""),
        by=body.get("by"),
        overrides=frozenset(map(UndoBlocker, body.get("overrides", ()))),
    )


def _location(undo_id: UUID) -> str:
    return url_for("undo.get_undo", undo_id=undo_id)


def _report(session: Session, undo_id: str) -> dict[str, Any]:
    undo = get_undo(session, undo_id, organisation_id=caller().organisation_id)
    answer: dict[str, Any] = schemas.UndoProgressAnswerSchema().dump(report_undo(session, undo))
    return answer
