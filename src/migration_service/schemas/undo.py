"""The bodies, query strings and responses of the endpoints for undo."""

from typing import Any

from marshmallow import ValidationError, validates_schema

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_payloads.schemas.messages import Message
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by, reason_of
from migration_service.states import UndoBlocker, UndoOutcome, UndoState

BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_UNDO_ID = "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a90"
PLAN_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12"
_MOMENT = "2026-03-02T08:00:00Z"


class UndoneWaveSchema(CommandFields):
    """A wave of a plan."""

    plan_id = fields.Identifier("The id of the plan.", PLAN_ID, required=True)
    number = fields.WholeNumber("The number of the wave.", 1, required=True)


class UndoTargetSchema(CommandFields):
    """The accounts to undo: those of a batch or a wave, or accounts by number; or what a batch has added."""

    import_supplier = fields.NormalIdentifier(
        "Code of the accounts' import supplier.", "DEMO_SUPPLIER", required=True
    )
    external_account_numbers = fields.Values(
        fields.NormalIdentifier(), "The numbers of the accounts.", ["10000001"]
    )
    batch = fields.Scope(
        "Instead of numbers: all accounts that this batch created, or what it has added to accounts.",
        BATCH_ID,
    )
    wave = fields.Object(
        UndoneWaveSchema,
        "Instead of numbers: all accounts that this wave created.",
        {"plan_id": PLAN_ID, "number": 1},
    )

    @validates_schema(skip_on_field_errors=True)
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require account numbers, a batch or a wave."""
        given = [bool(data.get("external_account_numbers")), "batch" in data, "wave" in data]
        if sum(given) != 1:
            message = "Expected exactly one of external_account_numbers, batch and wave."
            raise ValidationError(Message(message, "required"), "external_account_numbers")


class UndoBodySchema(UndoTargetSchema):
    """The body for starting an undo."""

    reason = reason_of("The mapping of tariffs was wrong.")
    by = decided_by()
    overrides = fields.Values(
        fields.Choice(UndoBlocker),
        "Undo accounts although these block them. The key needs the scope `override`.",
        ["email_sent"],
    )


class UndoResultArgumentsSchema(Fields):
    """The query string of the outcomes of an undo."""

    outcome = fields.Choice(UndoOutcome, "Only accounts with this outcome.", "KEPT")


class FoundBlockerAnswerSchema(AnswerSchema):
    """Something that blocks accounts from being undone."""

    code = answers.String("The code of the blocker.", "email_sent", words=UndoBlocker)
    may_be_overridden = answers.Boolean(
        "Whether an administrator, or a key with the scope `override`, can override it.", True
    )
    accounts = answers.Integer("Number of accounts that it blocks.", 3)
    examples = answers.List(answers.String, "The numbers of some of them.", ["10000001"])


class UndoPreviewAnswerSchema(AnswerSchema):
    """The preview of an undo."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    batch_id = answers.UUID("The batch, or null for numbers.", BATCH_ID, allow_none=True)
    plan_id = answers.UUID("The plan, or null if the batch is not a wave.", PLAN_ID, allow_none=True)
    wave_number = answers.Integer("The number of that wave in its plan, or null.", 1, allow_none=True)
    accounts = answers.Integer("Created accounts in the undo.", 1_000)
    revertible = answers.Integer("Accounts that would be undone.", 997)
    revertible_with_overrides = answers.Integer(
        "Accounts that would be undone if every blocker that can be overridden were overridden.", 1_000
    )
    emails = answers.Integer("Unsent customer e-mails that would be withdrawn.", 12)
    gone = answers.Integer("Lines of the batch, or numbers, whose account no longer exists.", 0)
    blockers = answers.List(FoundBlockerAnswerSchema, "The blockers of accounts, most frequent first.")


class UndoAnswerSchema(AnswerSchema):
    """An undo."""

    undo_id = answers.UUID("The id of the undo.", _UNDO_ID)
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    batch_id = answers.UUID("The batch, or null for numbers.", BATCH_ID, allow_none=True)
    plan_id = answers.UUID("The plan, or null if the batch is not a wave.", PLAN_ID, allow_none=True)
    wave_number = answers.Integer("The number of that wave in its plan, or null.", 1, allow_none=True)
    state = answers.String("Its state.", "RUNNING", words=UndoState)
    reason = answers.String("Why.", "The mapping of tariffs was wrong.")
    overrides = answers.List(answers.String, "Blockers that an operator has overridden.", [])
    started_by = answers.String(
        "The prefix of the API key, or the name of the operator.", "5f2c9a1be0d4", allow_none=True
    )
    created_at = answers.Moment("When it was started, in UTC.", _MOMENT)
    finished_at = answers.Moment("When it ended, in UTC.", _MOMENT, allow_none=True)
    accounts = answers.Integer("The number of its accounts.", 1_000)


class UndoProgressAnswerSchema(UndoAnswerSchema):
    """The full report of an undo."""

    counts = answers.Counts("Accounts by outcome.", {"PENDING": 0, "REVERTED": 997, "KEPT": 3})
    kept_counts = answers.Counts("Numbers of kept accounts by reason.", {"email_sent": 3})


class UndoOutcomeAnswerSchema(AnswerSchema):
    """The outcome of one account of an undo."""

    external_account_number = answers.String(
        "The account. Null if nothing is known about it any more.", "10000001", allow_none=True
    )
    service_account_number = answers.String(
        "The number that the account had. It is never reused.", "A-7KX2M9QD"
    )
    outcome = answers.String("The outcome.", "KEPT", words=UndoOutcome)
    reasons = answers.List(answers.String, "Why it was kept.", ["email_sent"])
