"""The control totals of a batch: its supplier's totals for the file."""

from flask import Response, jsonify

from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import document_body, read_json
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas import control_totals
from migration_service.services.batches.control import get_batch
from migration_service.services.batches.intake.control_totals import report_control_totals, set_control_totals

blueprint = make_blueprint(
    "control_totals",
    "batches/<batch_id>/control-totals",
    "Compare the totals of a file with its supplier's control totals.",
)

_ANSWER_EXAMPLE = control_totals.ControlTotalsAnswerSchema.example(
    control_totals={"accounts": 20_000, "ledger_balances": {"ENERGY_LEDGER": "-1204388.55"}},
    totals=[
        {"measure": "accounts", "given": 20_000, "file": 20_000, "difference": 0},
        {
            "measure": "balance of ENERGY_LEDGER",
            "given": -1204388.55,
            "file": -1204288.55,
            "difference": 100.00,
        },
        {"measure": "statements", "given": None, "file": 33_748, "difference": None},
    ],
    differing=1,
    as_given=False,
)


@blueprint.get("/")
@blueprint.response(200, control_totals.ControlTotalsAnswerSchema, example=_ANSWER_EXAMPLE)
@answers_errors(errors.BatchNotFoundError)
def get_control_totals(batch_id: str) -> Response:
    """Get the totals of a batch's file

    All readable lines of the file count, including refused ones. Each total is shown with the supplier's
    control total. A batch without a file of accounts has no totals.
    """
    with resources().Session.begin() as session:
        batch = get_batch(session, batch_id, organisation_id=caller().organisation_id)
        return jsonify(control_totals.ControlTotalsAnswerSchema().dump(report_control_totals(batch)))


@blueprint.put("/", endpoint="set_control_totals")
@blueprint.response(200, control_totals.ControlTotalsAnswerSchema, example=_ANSWER_EXAMPLE)
@answers_errors(errors.BatchNotFoundError, errors.BatchStateError)
@document_body(control_totals.ControlTotalsSchema(), control_totals.EXAMPLE)
def put_control_totals(batch_id: str) -> Response:
    """Set the control totals of a batch

    Take the totals from the source system rather than from the file, so that they reveal what is missing from
    the file. They replace earlier control totals. Totals that are left out are not compared.
    """
    organisation_id = caller().organisation_id
    with resources().Session.begin() as session:
        get_batch(session, batch_id, organisation_id=organisation_id)
    totals = control_totals.read_control_totals(read_json())  # no connection is held while the body arrives
    with resources().Session.begin() as session:
        batch = get_batch(session, batch_id, organisation_id=organisation_id)
        return jsonify(
            control_totals.ControlTotalsAnswerSchema().dump(set_control_totals(session, batch, totals))
        )
