"""The bodies and responses of the endpoints for replacements."""

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by
from migration_service.schemas.undo import BATCH_ID, PLAN_ID, UndoneWaveSchema, UndoTargetSchema


class ReplacementTargetSchema(UndoTargetSchema):
    """The accounts to replace: those of a batch or a wave, or accounts by number."""

    batch = fields.Scope("Instead of numbers: all accounts of the lines of this batch.", BATCH_ID)
    wave = fields.Object(
        UndoneWaveSchema, "Instead of numbers: all accounts of this wave.", {"plan_id": PLAN_ID, "number": 1}
    )


class ReplacementBodySchema(ReplacementTargetSchema):
    """The body for starting a replacement."""

    reason = fields.Identifier(
        "The reason. It is kept: no personal data.", "The second delivery.", required=True, max_length=1_000
    )
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
