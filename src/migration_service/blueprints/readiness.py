"""Whether a supplier is ready for its next wave, or for go-live."""

from typing import Any

from flask import Response, jsonify

from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_payloads.schemas.coded import example_of
from migration_payloads.schemas.fields import Choice
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.interface import make_blueprint, supplier_in_path
from migration_service.blueprints.requests.places import begin_answer, database_searches, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.metrics.disks import read_disks
from migration_service.payment_vendors.calls import read_failing
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by, reason_of
from migration_service.services.readiness.checks import Surroundings
from migration_service.services.readiness.report import accept_warning, examine
from migration_service.services.setup.vendors import list_payment_vendors
from migration_service.services.undo.go_live import Gate
from migration_service.states import CheckResult, ReadinessCheck, ReadyFor

_REASON = "The backup of tonight runs before the window opens"
_CHECK: dict[str, Any] = {
    "check": "backup_recent",
    "result": "WARNING",
    "detail": "The last backup is of 2026-02-27T03:00:00Z.",
    "remedy": "Take another one, and run migration-service backups taken.",
    "accepted_by": "Grace",
    "accepted_at": "2026-03-01T10:15:00Z",
    "accepted_because": _REASON,
}


def _ready_for() -> Choice:
    about = "For what. By default for the next wave if one is planned, and otherwise for go-live."
    return Choice(ReadyFor, about, "next_wave")


class ReadinessArgumentsSchema(Fields):
    """The query string of the checks."""

    ready_for = _ready_for()


class AcceptanceBodySchema(CommandFields):
    """The body for accepting a warning."""

    check = Choice(ReadinessCheck, "The check whose warning is accepted.", "backup_recent", required=True)
    reason = reason_of(_REASON)
    by = decided_by()
    ready_for = _ready_for()


class CheckAnswerSchema(AnswerSchema):
    """What a check found."""

    check = answers.String("The check.", _CHECK["check"], words=ReadinessCheck)
    result = answers.String("Its result.", _CHECK["result"], words=CheckResult)
    detail = answers.String("What it found.", _CHECK["detail"])
    remedy = answers.String("What to do. Empty if it has passed.", _CHECK["remedy"])
    accepted_by = answers.String("Who accepted the warning, or null.", _CHECK["accepted_by"], allow_none=True)
    accepted_at = answers.Moment("When, in UTC.", _CHECK["accepted_at"], allow_none=True)
    accepted_because = answers.String("Why.", _REASON, allow_none=True)


class ReadinessAnswerSchema(AnswerSchema):
    """Whether a supplier is ready."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    ready_for = answers.String("For what.", "next_wave", words=ReadyFor)
    wave_number = answers.Integer(
        "The next wave of its plan. Null before go-live, or if none is planned.", 2, allow_none=True
    )
    ready = answers.Boolean("Whether nothing has failed, and every warning was accepted.", True)
    checks = answers.List(CheckAnswerSchema, "The checks.", [_CHECK])


blueprint = make_blueprint(
    "readiness", "import-suppliers", "Check whether a supplier is ready for its next wave, or for go-live."
)

_EXAMPLE = ReadinessAnswerSchema.example()


def look_around() -> Surroundings:
    """Return what only this process knows: the vendors that fail, and the free bytes of the database."""
    shared = resources()
    with shared.Session.begin() as session:
        names = {vendor.name for vendor, _owner in list_payment_vendors(session)}
    disks = read_disks(shared.settings.home, shared.settings.upload_folder)
    return Surroundings(
        gate=Gate.of(shared.settings),
        failing_vendors=[name for name in names if read_failing(shared.redis, name)],
        free_bytes=next((disk.free for disk in disks if disk.kept == "data"), None),
    )


@blueprint.get("/<import_supplier_code>/ready/", endpoint="check_readiness")
@query_arguments(ReadinessArgumentsSchema())
@blueprint.response(200, ReadinessAnswerSchema)
@answers_errors(errors.ImportSupplierNotFoundError)
@while_client_waits
@database_searches()
def check(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """Check whether a supplier is ready for its next wave, or for go-live

    Each named check has passed, is a warning or has failed, and says what to do. The supplier is `ready` if
    none has failed and every warning was accepted. Nothing is changed, and a wave that starts by itself does
    so whatever the checks say.
    """
    ready_for = ReadyFor(arguments["ready_for"]) if "ready_for" in arguments else None
    surroundings = look_around()
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        begin_answer()
        found = examine(session, supplier, surroundings, ready_for)
    return jsonify(ReadinessAnswerSchema().dump(found))


@blueprint.post("/<import_supplier_code>/ready/acceptances/", endpoint="accept_warning")
@blueprint.response(201, CheckAnswerSchema, example=_EXAMPLE["checks"][0])
@answers_errors(errors.ImportSupplierNotFoundError, errors.ReadinessNotAcceptableError)
@json_body(AcceptanceBodySchema(), example_of(AcceptanceBodySchema))
@while_client_waits
@database_searches()
def accept(body: dict[str, Any], import_supplier_code: str) -> tuple[Response, int]:
    """Accept the warning of a check

    It stays accepted for as long as it says the same. The reason, and who accepted it, are kept and in the
    audit. A check that has failed cannot be accepted.
    """
    ready_for = ReadyFor(body["ready_for"]) if "ready_for" in body else None
    surroundings = look_around()
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        found = examine(session, supplier, surroundings, ready_for).checks
        given = {"reason": body["reason"], "by": body.get("by")}
        accepted = accept_warning(session, supplier, found, body["check"], **given)
        return jsonify(CheckAnswerSchema().dump(accepted)), 201
