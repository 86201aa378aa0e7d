"""Replacements: created accounts are created again from the newest version that was sent, until go-live."""

from typing import Any
from uuid import UUID

from flask import Response, jsonify, url_for

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema
from migration_payloads.schemas.coded import example_of
from migration_service import errors
from migration_service.blueprints.batch_upload import intake_limits
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, answer_with_effect, idempotent
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.places import begin_answer, database_searches, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.undo import TARGET_ERRORS, read_order
from migration_service.schemas import answers
from migration_service.schemas.batches import BatchProgressAnswerSchema
from migration_service.schemas.deciding import decided_by, reason_of
from migration_service.schemas.undo import BATCH_ID, PLAN_ID, UndoneWaveSchema, UndoTargetSchema
from migration_service.services.batches.control import get_batch, report_batch
from migration_service.services.undo.replacements import preview_replacement, start_replacement
from migration_service.tasks.batches import feed_batches


class ReplacementTargetSchema(UndoTargetSchema):
    """The accounts to replace: those of a batch or a wave, or accounts by number."""

    batch = fields.Scope("Instead of numbers: all accounts of the lines of this batch.", BATCH_ID)
    wave = fields.Object(
        UndoneWaveSchema, "Instead of numbers: all accounts of this wave.", {"plan_id": PLAN_ID, "number": 1}
    )


class ReplacementBodySchema(ReplacementTargetSchema):
    """The body for starting a replacement."""

    reason = reason_of("The second delivery.")
    by = decided_by()
    operations_team_name = fields.Identifier(
        "The operations team of accounts that were undone and are created again. The default is the team of "
        "the batch. Accounts that are replaced keep theirs.",
        "Migration Team",
    )


class KeptBackAnswerSchema(AnswerSchema):
    """Why accounts would be kept as they are."""

    code = answers.String("The code of an error.", "added_data_does_not_fit")
    accounts = answers.Integer("Number of accounts that it keeps.", 3)
    examples = answers.List(answers.String, "The numbers of some of them.", ["10000001"])


class ReplacementPreviewAnswerSchema(AnswerSchema):
    """The preview of a replacement."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    accounts = answers.Integer("Accounts of the target that were ever staged.", 1_000)
    replaced = answers.Integer("Accounts that exist and would be replaced by a newer version.", 10)
    created = answers.Integer("Accounts that do not exist, and would be created.", 40)
    unchanged = answers.Integer("Accounts that exist in their newest version.", 947)
    blockers = answers.List(KeptBackAnswerSchema, "What keeps the others, most frequent first.")


blueprint = make_blueprint(
    "replacements", "replacements", "Replace created accounts by a newer version, until their go-live."
)

_RUNNING = dict.fromkeys(("reason", "finished_at", "lines_removed_at", "runs_until", "next_try_at"))
_TARGET = {
    name: it for name, it in example_of(ReplacementTargetSchema).items() if name not in ("batch", "wave")
}


@blueprint.post("/preview/", endpoint="preview_replacement")
@blueprint.response(200, ReplacementPreviewAnswerSchema)
@answers_errors(*TARGET_ERRORS)
@json_body(ReplacementTargetSchema(), _TARGET)
@while_client_waits
@database_searches()
def preview(body: dict[str, Any]) -> Response:
    """Preview a replacement

    Shows how many accounts would be replaced by the newest version that was sent, how many would be created,
    and what keeps the others. Nothing is changed.
    """
    with resources().Session.begin() as session:
        order = read_order(session, body)
        begin_answer()
        found = preview_replacement(session, order)
    return jsonify(ReplacementPreviewAnswerSchema().dump(found))


@blueprint.post("/", endpoint="start_replacement")
@idempotent()
@blueprint.response(202, BatchProgressAnswerSchema, example=BatchProgressAnswerSchema.example(**_RUNNING))
@answers_errors(
    *TARGET_ERRORS,
    errors.NothingToReplaceError,
    errors.ImportSupplierPausedError,
    errors.ImportSupplierCompleteError,
    errors.OperationsTeamNotFoundError,
    errors.TooManyUploadsError,
    errors.TooManyOpenBatchesError,
    errors.BatchStorageQuotaError,
    *KEY_ERRORS,
)
@json_body(ReplacementBodySchema(), _TARGET | {"reason": "The second delivery."})
@while_client_waits
def start(body: dict[str, Any]) -> Response:
    """Start a replacement

    A batch creates the accounts again from the newest version that was sent and not taken, because they
    existed. Each keeps its service account number, its team, and the data that was added to it. A line fails
    if something keeps its account as it is: go-live, or data that was added and does not fit. Accounts that
    were undone are created, so a wave is imported again without a file.
    """
    shared = resources()
    with shared.Session.begin() as session:
        batch_id = start_replacement(
            session,
            read_order(session, body),
            intake_limits(shared.settings).quotas,
            operations_team_name=body.get("operations_team_name"),
            api_key_id=caller().api_key_id,
            on_accepted=lambda batch_id: begin_answer(202, _location(batch_id)),
        )
        session.flush()
        batch = get_batch(session, str(batch_id), organisation_id=caller().organisation_id)
        report = BatchProgressAnswerSchema().dump(report_batch(session, batch))
        answer = answer_with_effect(session, report, 202, _location(batch_id))
    feed_batches(shared.celery, shared.Session)
    return answer


def _location(batch_id: UUID) -> str:
    return url_for("batches.get_batch", batch_id=batch_id)
