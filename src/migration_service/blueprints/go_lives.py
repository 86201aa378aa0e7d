"""Go-live: from then on accounts belong to the platform, and cannot be undone."""

from typing import Any

from flask import Response, jsonify, url_for
from marshmallow import ValidationError, validates_schema
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema
from migration_payloads.schemas.coded import example_of
from migration_payloads.schemas.messages import Message
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, answer_with_effect, idempotent
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_body
from migration_service.blueprints.requests.paging import answer_list
from migration_service.blueprints.requests.places import begin_answer, database_searches, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by
from migration_service.schemas.paging import list_arguments
from migration_service.schemas.undo import UndoTargetSchema
from migration_service.services.undo import go_live
from migration_service.services.undo.orders import batch_in_body
from migration_service.states import GoLiveState
from migration_service.tasks import jobs

_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_PLAN_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12"
_GO_LIVE_ID = "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a91"
_MOMENT = "2027-03-01T06:00:00Z"


class GoLiveTargetSchema(UndoTargetSchema):
    """The accounts that go live: those of a batch or a wave, accounts by number, or all of the supplier."""

    at = fields.UtcMoment("The moment, if it is not now. Until it comes, it can be changed.", _MOMENT)

    @validates_schema(skip_on_field_errors=True)
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse more than one of account numbers, a batch and a wave, and an empty list."""
        names = ("external_account_numbers", "batch", "wave")
        if sum(name in data for name in names) > 1 or data.get("external_account_numbers") == []:
            message = "Expected at most one of external_account_numbers, batch and wave, and no empty list."
            raise ValidationError(Message(message, "invalid"), "external_account_numbers")


class GoLiveBodySchema(GoLiveTargetSchema):
    """The body for a go-live."""

    by = decided_by()


class _ScopeSchema(AnswerSchema):
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    batch_id = answers.UUID(
        "The batch, or null for numbers or the whole supplier.", _BATCH_ID, allow_none=True
    )
    plan_id = answers.UUID("The plan, or null if the batch is not a wave.", _PLAN_ID, allow_none=True)
    wave_number = answers.Integer("The number of that wave in its plan, or null.", 1, allow_none=True)
    live_at = answers.Moment("The moment, in UTC.", _MOMENT)


class GoLivePreviewAnswerSchema(_ScopeSchema):
    """The preview of a go-live."""

    before = answers.Moment("The planned moment that it replaces, in UTC.", None, allow_none=True)
    accounts = answers.Integer("Accounts that go live, and can then never be undone.", 1_000)
    already_live = answers.Integer("Accounts that have gone live already.", 0)
    emails = answers.Integer("Held e-mails to customers that are then sent.", 1_192)
    not_ready = answers.List(answers.String, "Why it is not allowed yet. Empty if it is.", [])


class GoLiveAnswerSchema(_ScopeSchema):
    """A go-live."""

    go_live_id = answers.UUID("The id of the go-live.", _GO_LIVE_ID)
    state = answers.String(
        "PENDING until its moment has come and every account is marked.", "COMPLETED", words=GoLiveState
    )
    decided_by = answers.String("Who decided.", "Grace", allow_none=True)
    accounts = answers.Integer("The number of accounts that have gone live.", 1_000)
    emails = answers.Integer("The number of held e-mails to customers that were released with them.", 1_192)
    receipt = answers.Dict(
        "The receipt that it relies on. Null for named accounts, or if none was asked for.",
        {},
        allow_none=True,
    )
    created_at = answers.Moment("When it was decided, in UTC.", "2027-02-26T15:00:00Z")
    finished_at = answers.Moment("When it ended, in UTC.", _MOMENT, allow_none=True)


blueprint = make_blueprint(
    "go_lives", "go-lives", "Decide that accounts go live. Then the platform owns them, and they stay."
)

_GO_LIVE = GoLiveAnswerSchema.example(plan_id=None, wave_number=None)
_PREVIEW = GoLivePreviewAnswerSchema.example(plan_id=None, wave_number=None)
_BODY = {
    name: it
    for name, it in example_of(GoLiveBodySchema).items()
    if name in ("import_supplier", "batch", "at")
}
_ORDER_ERRORS = (
    errors.ImportSupplierNotFoundInBodyError,
    errors.ImportSupplierLiveError,
    errors.GoLiveFarError,
    errors.NothingGoesLiveError,
    errors.GoLivePastError,
    errors.BatchNotFoundError,
    errors.BatchStateError,
    errors.WavePlanNotFoundError,
    errors.WaveNotFoundError,
)


@blueprint.post("/preview/", endpoint="preview_go_live")
@blueprint.response(200, GoLivePreviewAnswerSchema, example=_PREVIEW)
@answers_errors(*_ORDER_ERRORS)
@json_body(GoLiveTargetSchema(), _BODY)
@while_client_waits
@database_searches()
def preview(body: dict[str, Any]) -> Response:
    """Preview a go-live

    Shows how many accounts would go live, and how many held e-mails to customers would then be sent. Nothing
    is changed.
    """
    with resources().Session.begin() as session:
        order = _read_order(session, body)
        begin_answer()
        found = go_live.preview_go_live(session, order)
    if found.is_past:
        raise errors.GoLivePastError(found=write_moment(found.live_at))
    return jsonify(GoLivePreviewAnswerSchema().dump(found))


@blueprint.post("/", endpoint="start_go_live")
@idempotent()
@blueprint.response(202, GoLiveAnswerSchema, example=_GO_LIVE | {"state": "PENDING", "finished_at": None})
@answers_errors(*_ORDER_ERRORS, errors.GoLiveNotReadyError, errors.GoLiveFourEyesError, *KEY_ERRORS)
@json_body(GoLiveBodySchema(), _BODY)
def start(body: dict[str, Any]) -> Response:
    """Let accounts go live

    Accounts of a wave, of a batch, with these numbers, or all of the supplier: now, or at a moment, which can
    be changed until it comes by sending the go-live of the same wave, batch or supplier again. Workers mark
    the accounts, each with the event `account.went_live`. From then on their owner is the platform, and they
    can never be undone. Other accounts of the supplier are not affected. It asks for a receipt: a comparison
    of the last day with nothing open, or with exceptions that were accepted.
    """
    with resources().Session.begin() as session:
        it = go_live.start_go_live(session, _read_order(session, body))
        location = url_for("go_lives.get_go_live", go_live_id=it.id)
        answer = answer_with_effect(session, _report(session, str(it.id)), 202, location)
    jobs.dispatch(resources().celery, resources().Session, jobs.GO_LIVES)
    return answer


@blueprint.get("/", endpoint="list_go_lives")
@query_arguments(list_arguments("go-lives"))
@blueprint.response(200, GoLiveAnswerSchema(many=True), example=[_GO_LIVE], headers=refer("Link"))
@answers_errors()
def list_all(arguments: dict[str, Any]) -> Response:
    """List the organisation's go-lives, newest first

    The response is one page. A Link header (rel="next") leads to the next one.
    """
    return answer_list(arguments, go_live.list_go_lives, "go_live_id", GoLiveAnswerSchema())


@blueprint.get("/<go_live_id>/", endpoint="get_go_live")
@blueprint.response(200, GoLiveAnswerSchema, example=_GO_LIVE)
@answers_errors(errors.GoLiveNotFoundError)
def get_one(go_live_id: str) -> Response:
    """Get the progress of a go-live

    Includes how many accounts have gone live.
    """
    with resources().Session.begin() as session:
        return jsonify(_report(session, go_live_id))


@blueprint.post("/<go_live_id>/cancel/", endpoint="cancel_go_live")
@blueprint.response(200, GoLiveAnswerSchema, example=_GO_LIVE | {"state": "CANCELLED", "accounts": 0})
@answers_errors(errors.GoLiveNotFoundError, errors.GoLiveStateError)
def cancel(go_live_id: str) -> Response:
    """Cancel a go-live

    This is possible until its moment has come.
    """
    with resources().Session.begin() as session:
        it = go_live.get_go_live(session, go_live_id, organisation_id=caller().organisation_id)
        go_live.cancel_go_live(session, it)
        session.flush()
        return jsonify(_report(session, go_live_id))


def _read_order(session: Session, body: dict[str, Any]) -> go_live.GoLiveOrder:
    supplier = supplier_in_body(session, body)
    batch_id = batch_in_body(session, body, supplier)
    return go_live.GoLiveOrder(
        supplier=supplier,
        gate=go_live.Gate.of(resources().settings),
        at=body.get("at"),
        batch=go_live.get_batch_to_go_live(session, batch_id, supplier) if batch_id else None,
        external_account_numbers=body.get("external_account_numbers"),
        by=body.get("by"),
    )


def _report(session: Session, go_live_id: str) -> dict[str, Any]:
    it = go_live.get_go_live(session, go_live_id, organisation_id=caller().organisation_id)
    answer: dict[str, Any] = GoLiveAnswerSchema().dump(go_live.report_go_live(session, it))
    return answer
