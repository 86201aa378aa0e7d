"""The bodies, query strings and responses of the endpoints for undo."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from migration_service.schemas.base import AnswerSchema, CommandFields, Fields
from migration_service.schemas.fields import (
    AnsweredMoment,
    Choice,
    Identifier,
    NormalIdentifier,
    Object,
    Values,
    WholeNumber,
    about,
)
from migration_service.schemas.messages import Message
from migration_service.states import UndoBlocker, UndoOutcome, UndoState

_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_UNDO_ID = "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a90"
_PLAN_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12"
_MOMENT = "2026-03-02T08:00:00Z"
_COUNTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
_CODES = [blocker.value for blocker in UndoBlocker]
_BLOCKER = {"code": "email_sent", "may_be_overridden": True, "accounts": 3, "examples": ["10000001"]}


class UndoneWaveSchema(CommandFields):
    """A wave of a plan."""

    plan_id = Identifier(required=True, metadata=about("The id of the plan.", _PLAN_ID))
    number = WholeNumber(required=True, metadata=about("The number of the wave.", 1))


class UndoTargetSchema(CommandFields):
    """The accounts to undo: those of a batch or a wave, or accounts by number."""

    import_supplier = NormalIdentifier(
        required=True, metadata=about("Code of the accounts' import supplier.", "DEMO_SUPPLIER")
    )
    external_account_numbers = Values(
        NormalIdentifier(), metadata=about("The numbers of the accounts.", ["10000001"])
    )
    batch = Identifier(metadata=about("Instead of numbers: all accounts that this batch created.", _BATCH_ID))
    wave = Object(
        UndoneWaveSchema,
        metadata=about(
            "Instead of numbers: all accounts that this wave created.", {"plan_id": _PLAN_ID, "number": 1}
        ),
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

    reason = Identifier(
        required=True,
        max_length=1_000,
        metadata=about("The reason. It is kept: no personal data.", "The mapping of tariffs was wrong."),
    )


class UndoListArgumentsSchema(Fields):
    """The query string of the list of undos."""

    import_supplier = Identifier(metadata=about("Only undos of this import supplier.", "DEMO_SUPPLIER"))
    limit = WholeNumber(
        load_default=50,
        metadata=about(
            "At most this many undos, 1 to 500. The Link header leads to the next page.",
            50,
            schema={"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        ),
    )
    cursor = Identifier(metadata=about("Where the page starts, taken from the Link header.", _UNDO_ID))


class UndoResultArgumentsSchema(Fields):
    """The query string of the outcomes of an undo."""

    outcome = Choice(
        UndoOutcome,
        metadata=about(
            "Only accounts with this outcome.",
            "KEPT",
            schema={"type": "string", "enum": [outcome.value for outcome in UndoOutcome]},
        ),
    )


class FoundBlockerAnswerSchema(AnswerSchema):
    """Something that blocks accounts from being undone."""

    code = fields.String(metadata=about("The code of the blocker.", "email_sent", enum=_CODES))
    may_be_overridden = fields.Boolean(
        metadata=about("Whether an operator with the role administer can override it.", True)
    )
    accounts = fields.Integer(metadata=about("Number of accounts that it blocks.", 3))
    examples = fields.List(fields.String(), metadata=about("The numbers of some of them.", ["10000001"]))


class UndoPreviewAnswerSchema(AnswerSchema):
    """The preview of an undo."""

    import_supplier = fields.String(metadata=about("Code of the import supplier.", "DEMO_SUPPLIER"))
    batch_id = fields.UUID(allow_none=True, metadata=about("The batch, or null for numbers.", _BATCH_ID))
    plan_id = fields.UUID(
        allow_none=True, metadata=about("The plan, or null if the batch is not a wave.", _PLAN_ID)
    )
    wave_number = fields.Integer(
        allow_none=True, metadata=about("The number of that wave in its plan, or null.", 1)
    )
    accounts = fields.Integer(metadata=about("Created accounts in the undo.", 1_000))
    revertible = fields.Integer(metadata=about("Accounts that would be undone.", 997))
    revertible_with_overrides = fields.Integer(
        metadata=about(
            "Accounts that would be undone if every blocker that can be overridden were overridden.", 1_000
        )
    )
    emails = fields.Integer(metadata=about("Unsent customer e-mails that would be withdrawn.", 12))
    gone = fields.Integer(
        metadata=about("Lines of the batch, or numbers, whose account no longer exists.", 0)
    )
    blockers = fields.List(
        fields.Nested(FoundBlockerAnswerSchema),
        metadata=about("The blockers of accounts, most frequent first.", [_BLOCKER]),
    )


class UndoAnswerSchema(AnswerSchema):
    """An undo."""

    undo_id = fields.UUID(metadata=about("The id of the undo.", _UNDO_ID))
    import_supplier = fields.String(metadata=about("Code of the import supplier.", "DEMO_SUPPLIER"))
    batch_id = fields.UUID(allow_none=True, metadata=about("The batch, or null for numbers.", _BATCH_ID))
    plan_id = fields.UUID(
        allow_none=True, metadata=about("The plan, or null if the batch is not a wave.", _PLAN_ID)
    )
    wave_number = fields.Integer(
        allow_none=True, metadata=about("The number of that wave in its plan, or null.", 1)
    )
    state = fields.String(metadata=about("Its state.", "RUNNING", enum=[state.value for state in UndoState]))
    reason = fields.String(metadata=about("Why.", "The mapping of tariffs was wrong."))
    overrides = fields.List(fields.String(), metadata=about("Blockers that an operator has overridden.", []))
    started_by = fields.String(
        allow_none=True,
        metadata=about("The prefix of the API key, or the name of the operator.", "5f2c9a1be0d4"),
    )
    created_at = AnsweredMoment(metadata=about("When it was started, in UTC.", _MOMENT))
    finished_at = AnsweredMoment(allow_none=True, metadata=about("When it ended, in UTC.", _MOMENT))
    accounts = fields.Integer(metadata=about("The number of its accounts.", 1_000))


class UndoProgressAnswerSchema(UndoAnswerSchema):
    """The full report of an undo."""

    counts = fields.Dict(
        metadata=about("Accounts by outcome.", {"PENDING": 0, "REVERTED": 997, "KEPT": 3}, **_COUNTS)
    )
    kept_counts = fields.Dict(
        metadata=about("Numbers of kept accounts by reason.", {"email_sent": 3}, **_COUNTS)
    )


class UndoOutcomeAnswerSchema(AnswerSchema):
    """The outcome of one account of an undo."""

    external_account_number = fields.String(
        allow_none=True,
        metadata=about("The account. Null if nothing is known about it any more.", "10000001"),
    )
    service_account_number = fields.String(
        metadata=about("The number that the account had. It is never reused.", "A-7KX2M9QD")
    )
    outcome = fields.String(
        metadata=about("The outcome.", "KEPT", enum=[outcome.value for outcome in UndoOutcome])
    )
    reasons = fields.List(fields.String(), metadata=about("Why it was kept.", ["email_sent"]))
