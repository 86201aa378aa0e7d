"""Body and answer of the erasure of an account."""

from marshmallow import fields

from migration_service.schemas.base import AnswerSchema, CommandFields
from migration_service.schemas.fields import Identifier, NormalIdentifier, about


class ErasureBodySchema(CommandFields):
    """The body that erases an account."""

    import_supplier = NormalIdentifier(
        required=True, metadata=about("Code of the account's import supplier.", "DEMO_SUPPLIER")
    )
    external_account_number = NormalIdentifier(
        required=True, metadata=about("The number of the account to erase.", "10000001")
    )
    reason = Identifier(
        required=True,
        max_length=1_000,
        metadata=about("Why, without personal data. It is kept.", "Request 2026-117"),
    )


class ErasureAnswerSchema(AnswerSchema):
    """What was erased."""

    external_account_number = fields.String(metadata=about("The number of the account.", "10000001"))
    service_account_number = fields.String(
        allow_none=True, metadata=about("The created account's number, if it was created.", "A-7KX2M9QD")
    )
    payload = fields.Boolean(metadata=about("Whether a staged payload was removed.", True))
    batch_lines = fields.Integer(metadata=about("Lines of batches whose text was removed.", 1))
    customers = fields.Integer(metadata=about("Customers that were removed.", 2))
    kept_answers = fields.Integer(metadata=about("Kept answers to requests that were removed.", 0))
