"""The control totals of a batch: what its supplier says that the file adds up to."""

from typing import Any

from flask import Response, jsonify
from flask_smorest import Blueprint

from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.auth import caller, require_token
from migration_service.blueprints.requests.body import document_body, read_json
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import (
    BatchNotFoundError,
    BatchStateError,
    ParseError,
    RequestFailedValidationError,
)
from migration_service.schemas.control_totals import (
    EXAMPLE,
    ControlTotalsAnswerSchema,
    ControlTotalsSchema,
    read_control_totals,
)
from migration_service.services.batches.control import get_batch
from migration_service.services.batches.intake.control_totals import report_control_totals, set_control_totals

blueprint = Blueprint(
    "control_totals",
    __name__,
    url_prefix="/v1/data-import/batches/<batch_id>/control-totals",
    description="What a file adds up to, compared with what its supplier says.",
)
blueprint.before_request(require_token)

_ANSWER_EXAMPLE: dict[str, Any] = {
    "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
    "control_totals": {"accounts": 20_000, "ledger_balances": {"ENERGY_LEDGER": "-1204388.55"}},
    "totals": [
        {"measure": "accounts", "given": 20_000, "file": 20_000, "difference": 0},
        {
            "measure": "balance of ENERGY_LEDGER",
            "given": -1204388.55,
            "file": -1204288.55,
            "difference": 100.00,
        },
        {"measure": "statements", "given": None, "file": 33_748, "difference": None},
    ],
    "differing": 1,
    "as_given": False,
    "unreadable_lines": 0,
    "unreadable_amounts": 0,
}


@blueprint.get("/")
@blueprint.response(200, ControlTotalsAnswerSchema, example=_ANSWER_EXAMPLE)
@answers_errors(blueprint, BatchNotFoundError)
def get_control_totals(batch_id: str) -> Response:
    """What the file of a batch adds up to

    All lines of the file count, also those that are refused, as far as they can be read. Each total is beside
    the one that the supplier gave. There are no totals without a file of accounts.
    """
    with resources().Session.begin() as session:
        batch = get_batch(session, batch_id, organisation_id=caller().organisation_id)
        return jsonify(ControlTotalsAnswerSchema().dump(report_control_totals(batch)))


@blueprint.put("/", endpoint="set_control_totals")
@document_body(blueprint, ControlTotalsSchema(), EXAMPLE)
@blueprint.response(200, ControlTotalsAnswerSchema, example=_ANSWER_EXAMPLE)
@answers_errors(blueprint, RequestFailedValidationError, ParseError, BatchNotFoundError, BatchStateError)
def put_control_totals(batch_id: str) -> Response:
    """Say what the file of a batch should add up to

    Take the totals from the source system rather than from the file, so that they show what the file has
    lost. They replace those that were given before. What is left out is not compared.
    """
    organisation_id = caller().organisation_id
    with resources().Session.begin() as session:
        get_batch(session, batch_id, organisation_id=organisation_id)
    totals = read_control_totals(read_json())  # no connection is held while the body comes in
    with resources().Session.begin() as session:
        batch = get_batch(session, batch_id, organisation_id=organisation_id)
        return jsonify(ControlTotalsAnswerSchema().dump(set_control_totals(session, batch, totals)))
